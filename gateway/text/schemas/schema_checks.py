"""Checks of clients' JSON schemas in bounded time.

Each part is examined once, expressions are never run and nothing is fetched. Whether an engine can follow the schema
is decided by the engine: keywords differ between engines, compiling a schema takes tens of megabytes at worst, and
the engine's refusal reaches the client as a 400 that names the parameter just as well.
"""

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from gateway.caching.lru import Lru
from gateway.text.schemas.absent_members import without_nulls
from gateway.text.schemas.keywords import inner_schemas, keyword_problems
from gateway.text.schemas.references import Found, check_references, target_of
from gateway.text.schemas.schema_paths import Place
from gateway.text.schemas.strict import MAX_ENUM_VALUES, check_strict, check_strict_root

#: OpenAI's limits on properties, and on characters in names and values.
MAX_PROPERTIES: Final = 5000
MAX_CHARS: Final = 120_000
#: Limits of a schema that need not be strict.
MAX_FREE_ENUM_VALUES: Final = 10_000
#: Limits on nesting and on the number of values.
MAX_DEPTH: Final = 200
MAX_VALUES: Final = 100_000


#: Digests of valid schemas: applications send the same ones with every request.
_RIGHT: Final[Lru[bytes, bool]] = Lru(4096)


def check_schema(given: Any, param: str, *, strict: bool) -> dict[str, Any]:
    """Check a schema and return it, without members that are null; `strict`: in OpenAI's subset.

    Raises InvalidRequest with `param` naming the place, as `response_format.json_schema.schema.properties.a`.
    """
    root = Place(param)
    if not isinstance(given, dict):
        raise root.error("must be a JSON schema, an object")
    schema: dict[str, Any] = given
    written = _written(schema)
    if written is not None and b":null" in written:
        _measure(schema, root)
        schema = without_nulls(schema)
        written = _written(schema)
    key = None if written is None else blake2b(written, digest_size=16, person=b"strict" if strict else b"").digest()
    if key is None or _RIGHT.get(key) is None:
        _check(schema, root, strict=strict)
        if key is not None:
            _RIGHT.put(key, True)
    return schema


def _written(value: Any) -> bytes | None:
    """Encode a value as JSON; None: it is nested too deeply."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return None


def _check(schema: dict[str, Any], root: Place, *, strict: bool) -> None:
    _measure(schema, root)
    if strict:
        check_strict_root(schema, root)
    found: Found = []
    seen: set[int] = set()
    names = chars = values = 0
    pending: deque[tuple[Any, Place, int]] = deque([(schema, root, 0)])
    while pending:
        part, place, levels = pending.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        keyword_problems(part, place)
        properties, enum = part.get("properties", {}), part.get("enum", ())
        levels += "properties" in part or part.get("type") == "object"
        if strict:
            check_strict(part, place, levels)
        names += len(properties)
        values += len(enum)
        chars += sum(map(len, properties)) + sum(len(one) for one in enum if isinstance(one, str))
        chars += len(part.get("pattern", "")) + sum(map(len, part.get("patternProperties", ())))
        _check_sizes(names, chars, values, strict, root)
        found.append((part, place))
        if "$ref" in part:
            # A reference may lead outside of the keywords that hold schemas.
            pending.appendleft((target_of(schema, part["$ref"], place), place.inside("$ref"), 0))
        pending += [(one, place.inside(*where), levels) for where, one in inner_schemas(part)]
    check_references(schema, found)


def check_together(schemas: Sequence[Any], param: str) -> None:
    """Check the total size of a request's schemas, so that many of them take no longer to check than one.

    A schema that is too large by itself is left to `check_schema`, and so are those after it. Raises InvalidRequest.
    """
    written = _written(schemas)
    if written is not None and len(written) <= min(MAX_VALUES, MAX_CHARS):
        return  # a value and a character take at least a byte each
    root, values, chars = Place(param), 0, 0
    for schema in schemas:
        values_before, chars_before = values, chars
        pending = [schema]
        while pending:
            value = pending.pop()
            values += 1
            if isinstance(value, dict):
                pending += value.values()
                patterns = value.get("patternProperties")
                named = [value.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]
                chars += sum(len(one) for one in named if isinstance(one, str))
            elif isinstance(value, list):
                pending += value
            if values + len(pending) - values_before > MAX_VALUES or chars - chars_before > MAX_CHARS:
                return
        if values > MAX_VALUES:
            raise root.error(f"has more than {MAX_VALUES} values")
        if chars > MAX_CHARS:
            raise root.error(f"has more than {MAX_CHARS} characters in patterns")


def _check_sizes(names: int, chars: int, values: int, strict: bool, root: Place) -> None:
    if names > MAX_PROPERTIES:
        raise root.error(f"has more than {MAX_PROPERTIES} properties")
    if chars > MAX_CHARS:
        raise root.error(f"has more than {MAX_CHARS} characters in its properties' names, enum values and patterns")
    if values > (most := MAX_ENUM_VALUES if strict else MAX_FREE_ENUM_VALUES):
        raise root.error(f"has more than {most} enum values")


def _measure(schema: dict[str, Any], root: Place) -> None:
    """Measure depth and size, annotations included."""
    count, depth = 0, 0
    level: list[Any] = [schema]
    while level:
        depth += 1
        count += len(level)
        if depth > MAX_DEPTH:
            raise root.error(f"is nested more than {MAX_DEPTH} deep")
        if count > MAX_VALUES:
            raise root.error(f"has more than {MAX_VALUES} values")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
        level = below
