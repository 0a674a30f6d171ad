"""The value form of each JSON schema keyword, and iteration over subschemas."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway.text.schemas.expression_checks import MAX_EXPRESSION_CHARS, expression_problem
from gateway.text.schemas.schema_paths import Place

TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
#: Keywords whose value is a schema, a list of schemas, or a mapping of names to schemas.
ONE: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
SEVERAL: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS: Final = tuple(f"{end}{of}" for of in ("Length", "Items", "Properties", "Contains") for end in ("min", "max"))
_TEXTS: Final = ("title", "description", "format", "$comment", "$id", "$schema", "$anchor", "$ref")

Check = Callable[[Any], str]


def keyword_problems(schema: dict[str, Any], place: Place) -> None:
    """Check each keyword's value. Raises InvalidRequest for an invalid form."""
    for name, value in schema.items():
        check = _CHECKS.get(name)
        problem = check(value) if check is not None else ""
        if problem:
            raise place.inside(name).error(problem)


def inner_schemas(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and value of each subschema; the keywords' forms must have been checked."""
    for name, value in schema.items():
        if name in ONE and not isinstance(value, list):
            yield (name,), value
        elif name in SEVERAL or name == "items":
            for index, one in enumerate(value):
                yield (name, index), one
        elif name in NAMED:
            for key, one in value.items():
                yield (name, key), one


def _is_schema(value: Any) -> str:
    return "" if isinstance(value, dict | bool) else "must be a schema: an object, or a boolean"


def _are_schemas(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return "must be a list of at least one schema"
    return next(
        (f"must be a list of schemas, which [{i}] is not" for i, one in enumerate(value) if _is_schema(one)), ""
    )


def _items(value: Any) -> str:
    # Older drafts allow tuples here.
    return _are_schemas(value) if isinstance(value, list) and value else _is_schema(value)


def _schemas_by_name(value: Any) -> str:
    if not isinstance(value, dict):
        return "must be an object of schemas"
    return next(
        (f"must have schemas, which '{name[:64]}' is not" for name, one in value.items() if _is_schema(one)), ""
    )


def _schemas_by_pattern(value: Any) -> str:
    problem = _schemas_by_name(value)
    if not problem and sum(map(len, value)) > MAX_EXPRESSION_CHARS:
        problem = f"has patterns of more than {MAX_EXPRESSION_CHARS} characters in all"
    return problem or next((problem for name in value if (problem := _pattern(name))), "")


def _type(value: Any) -> str:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        return f"must be one of {', '.join(sorted(TYPES))}, or a list of them"
    return "must not have a type twice" if len(set(names)) < len(names) else ""


def _enum(value: Any) -> str:
    return "" if isinstance(value, list) and value else "must be a list of at least one value"


def _names(value: Any) -> str:
    return "" if isinstance(value, list) and all(isinstance(one, str) for one in value) else "must be a list of strings"


def _names_by_name(value: Any) -> str:
    fine = isinstance(value, dict) and not any(map(_names, value.values()))
    return "" if fine else "must be an object of lists of strings"


def _number(value: Any) -> str:
    return "" if _is_number(value) else "must be a number"


def _above_zero(value: Any) -> str:
    return "" if _is_number(value) and value > 0 else "must be a number above 0"


def _count(value: Any) -> str:
    fine = _is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())
    return "" if fine else "must be a whole number of at least 0"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "must be a string"


def _pattern(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if len(value) > MAX_EXPRESSION_CHARS:
        return f"is longer than {MAX_EXPRESSION_CHARS} characters"
    problem = expression_problem(value)
    return f"is not a regular expression: {problem}" if problem else ""


def _refused(value: Any) -> str:
    return "is not supported here: refer with $ref"


_CHECKS: Final[dict[str, Check]] = {
    **dict.fromkeys(ONE, _is_schema),
    **dict.fromkeys(SEVERAL, _are_schemas),
    **dict.fromkeys(NAMED, _schemas_by_name),
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_TEXTS, _text),
    "items": _items,
    "patternProperties": _schemas_by_pattern,
    "type": _type,
    "enum": _enum,
    "required": _names,
    "dependentRequired": _names_by_name,
    "multipleOf": _above_zero,
    "uniqueItems": _flag,
    "pattern": _pattern,
    "$dynamicRef": _refused,
    "$recursiveRef": _refused,
}
