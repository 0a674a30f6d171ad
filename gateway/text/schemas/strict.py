"""Checks of OpenAI's strict subset of JSON schemas (guide to structured outputs, supported schemas)."""

from typing import Any, Final

from gateway.text.schemas.schema_paths import Place

MAX_LEVELS: Final = 10
MAX_ENUM_VALUES: Final = 1000
#: An enum of more values than this has a bound on their total characters too.
_MANY_VALUES: Final = 250
_MAX_VALUE_CHARS: Final = 15_000
_UNSUPPORTED: Final = ("allOf", "oneOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else")
#: One of these keywords must define a value.
_DEFINING: Final = ("type", "enum", "const", "anyOf", "$ref")


def check_strict_root(root: dict[str, Any], place: Place) -> None:
    """Check a strict root schema. Raises InvalidRequest."""
    if "anyOf" in root:
        raise place.error("must not have anyOf at its root when strict is true")
    if root.get("type") != "object" and "$ref" not in root:
        raise place.error("must be of type object when strict is true")


def check_strict(schema: dict[str, Any], place: Place, levels: int) -> None:
    """Check one strict schema at a nesting depth of `levels` objects. Raises InvalidRequest."""
    for name in _UNSUPPORTED:
        if name in schema:
            raise place.inside(name).error("is not supported when strict is true")
    if not any(name in schema for name in _DEFINING):
        raise place.error("must have a type when strict is true")
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds or "properties" in schema:
        _check_object(schema, place, levels)
    if "array" in kinds and not ("items" in schema or "prefixItems" in schema):
        raise place.error("must have items when strict is true")
    values = schema.get("enum", ())
    if len(values) > _MANY_VALUES and sum(len(one) for one in values if isinstance(one, str)) > _MAX_VALUE_CHARS:
        raise place.inside("enum").error(
            f"has more than {_MANY_VALUES} values, with more than {_MAX_VALUE_CHARS} characters in all"
        )


def _check_object(schema: dict[str, Any], place: Place, levels: int) -> None:
    if levels > MAX_LEVELS:
        raise place.error(f"is an object in more than {MAX_LEVELS - 1} others, the most when strict is true")
    if schema.get("additionalProperties") is not False:
        raise place.error("must have additionalProperties false when strict is true")
    properties, required = schema.get("properties", {}), set(schema.get("required", ()))
    left_out = next((name for name in properties if name not in required), None)
    if left_out is not None:
        raise place.error(f"must have all of its properties in required when strict is true: '{left_out[:64]}' is not")
    unknown = next((name for name in required if name not in properties), None)
    if unknown is not None:
        raise place.error(f"requires a property that it does not have, '{unknown[:64]}'")
