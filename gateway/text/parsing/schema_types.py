"""The JSON types of a tool's argument, where its schema states them plainly."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

#: Schemas examined at most: a client's schemas may refer to themselves.
_MOST: Final = 64
#: Members of a schema that ask for nothing.
_TELLING: Final = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})


def types_of(parameters: dict[str, Any] | None, key: str) -> frozenset[str] | None:
    """The names of the argument's types; None: any, or not known."""
    if parameters is None:
        return None
    properties = parameters.get("properties")
    schema = properties.get(key) if isinstance(properties, dict) else None
    return _types(schema, parameters, [_MOST])


def single_types(schema: Any, root: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of a schema, of one type each where it states them plainly; others as they are."""
    return list(_singles(schema, root, [_MOST]))


def _singles(schema: Any, root: dict[str, Any], left: list[int]) -> Iterator[dict[str, Any]]:
    left[0] -= 1
    if not isinstance(schema, dict) or left[0] < 0:
        yield {}
        return
    reference, rest = schema.get("$ref"), schema.keys() - _TELLING
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list) and rest == {name}:
            for one in schema[name]:
                yield from _singles(one, root, left)
            return
    if isinstance(reference, str) and reference.startswith("#/") and rest == {"$ref"}:
        yield from _singles(_at(root, reference[2:].split("/")), root, left)
    elif isinstance(schema.get("type"), list):
        for name in schema["type"]:
            single = {**schema, "type": name}
            if isinstance(schema.get("enum"), list):
                single["enum"] = [value for value in schema["enum"] if _is_of(value, name)]
                if not single["enum"]:
                    continue
            yield single
    elif "type" not in schema and _types(schema, root, left) == frozenset({"string"}):
        yield {**schema, "type": "string"}
    else:
        yield schema


def _is_of(value: Any, name: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return bool(name == ("null" if value is None else "boolean"))
    kinds = {str: ("string",), int: ("integer", "number"), float: ("number",), dict: ("object",), list: ("array",)}
    return name in kinds.get(type(value), ())


def _types(schema: Any, root: dict[str, Any], left: list[int]) -> frozenset[str] | None:
    left[0] -= 1
    if not isinstance(schema, dict) or left[0] < 0:
        return None
    types = schema.get("type")
    if isinstance(types, str):
        return frozenset({types})
    if isinstance(types, list):
        return frozenset([name for name in types if isinstance(name, str)])
    for values in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
        if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
            return frozenset({"string"})
    for schemas in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(schemas, list) and schemas:
            return _all_of([_types(one, root, left) for one in schemas])
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        return _types(_at(root, reference[2:].split("/")), root, left)
    return None


def _all_of(found: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    together: frozenset[str] = frozenset()
    for types in found:
        if types is None:
            return None
        together |= types
    return together


def _at(root: Any, steps: list[str]) -> Any:
    for step in steps:
        root = root.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root
