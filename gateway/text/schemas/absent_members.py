"""Members of a schema that are null: libraries that write optional members so mean that they are absent."""

from typing import Any, Final

#: Keywords whose members are schemas by the client's own names, and those with data, of which null may be a part.
_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_DATA: Final = frozenset(("const", "default", "enum", "examples", "example"))


def without_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without members that are null, at any level; a property that is null may be anything."""
    return {key: _value(key, value) for key, value in schema.items() if value is not None or key in _DATA}


def _value(key: str, value: Any) -> Any:
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, dict):
        return {name: {} if one is None else _cleaned(one) for name, one in value.items()}
    return _cleaned(value)


def _cleaned(value: Any) -> Any:
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return without_nulls(value) if isinstance(value, dict) else value
