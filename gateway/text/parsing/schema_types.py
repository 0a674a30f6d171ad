"""The JSON types of a tool's argument, where its schema states them plainly."""

from collections.abc import Iterable
from typing import Any, Final

#: Schemas examined at most: a client's schemas may refer to themselves.
_MOST: Final = 64


def types_of(parameters: dict[str, Any] | None, key: str) -> frozenset[str] | None:
    """The names of the argument's types; None: any, or not known."""
    if parameters is None:
        return None
    properties = parameters.get("properties")
    schema = properties.get(key) if isinstance(properties, dict) else None
    return _types(schema, parameters, [_MOST])


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
