"""Checks of a schema's references: only into the schema itself, none fetched, and no cycles of references alone."""

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

from gateway.text.schemas.schema_paths import Place

#: Keywords whose subschemas apply to the same value as the schema around them.
_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_ONE: Final = ("not", "if", "then", "else")

Found = list[tuple[dict[str, Any], Place]]
Edges = Callable[[dict[str, Any]], Iterator[Any]]


def check_references(root: dict[str, Any], schemas: Found) -> None:
    """Check all references; `schemas` are the root, its subschemas and their targets. Raises InvalidRequest."""
    anchors = {schema["$anchor"]: schema for schema, _ in schemas if "$anchor" in schema}
    targets: dict[int, Any] = {}
    for schema, place in schemas:
        if "$ref" in schema:
            target = target_of(root, schema["$ref"], place)
            if target is None:
                target = anchors.get(schema["$ref"][1:])
            if target is None:
                raise place.inside("$ref").error("refers to a place that is not there")
            targets[id(schema)] = target
    if not targets:
        return

    def same_value(schema: dict[str, Any]) -> Iterator[Any]:
        if id(schema) in targets:
            yield targets[id(schema)]
        for name in _SAME_VALUE:
            yield from schema.get(name, ())
        for name in _SAME_VALUE_ONE:
            if name in schema:
                yield schema[name]

    def needed(schema: dict[str, Any]) -> Iterator[Any]:
        if id(schema) in targets:
            yield targets[id(schema)]
        yield from schema.get("allOf", ())
        if schema.get("type") == "object":
            properties = schema.get("properties", {})
            yield from (properties[name] for name in schema.get("required", ()) if name in properties)
        if schema.get("type") == "array" and schema.get("minItems", 0) > 0 and "prefixItems" not in schema:
            yield schema.get("items")

    _refuse_circles(schemas, same_value, "refers to itself with nothing in between")
    _refuse_circles(schemas, needed, "needs itself in itself, so that no value can be finite")


def target_of(root: dict[str, Any], reference: str, place: Place) -> Any:
    """The target of a reference at a path; None for an anchor's name. Raises InvalidRequest."""
    place = place.inside("$ref")
    if not reference.startswith("#"):
        raise place.error("must refer to a place in this schema, as '#/$defs/name' does: no other is fetched")
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None
    found: Any = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(found):
            found = found[int(key[:9])]
        else:
            raise place.error("refers to a place that is not there")
    if not isinstance(found, dict | bool):
        raise place.error("refers to something that is no schema")
    return found


def _refuse_circles(schemas: Found, edges: Edges, problem: str) -> None:
    """Refuse cycles; each schema is visited once, whatever leads to it."""
    done: set[int] = set()
    for start, place in schemas:
        if id(start) in done:
            continue
        trail: list[Iterator[Any]] = [edges(start)]
        on_trail, ids = {id(start)}, [id(start)]
        while trail:
            following = next((one for one in trail[-1] if isinstance(one, dict) and id(one) not in done), None)
            if following is None:
                trail.pop()
                done.add(ids[-1])
                on_trail.discard(ids.pop())
            elif id(following) in on_trail:
                raise place.error(problem)
            else:
                trail.append(edges(following))
                on_trail.add(id(following))
                ids.append(id(following))
