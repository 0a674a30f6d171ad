"""Embedding of schemas in another schema: definitions move to its root, and references are rewritten."""

from typing import Any, Final
from urllib.parse import unquote

_DEFINITIONS: Final = ("$defs", "definitions")
#: Keywords whose members are schemas by the client's own names, ...
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", *_DEFINITIONS})
#: ... and keywords with data.
_DATA: Final = frozenset({"const", "default", "enum", "examples"})


def lifted(schema: dict[str, Any], name: str, place: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Rewrite a schema for its place in another one, a JSON pointer with `#`.

    Its definitions are added to `definitions`, the other's `$defs`, under names that begin with `name`.
    """
    mover = _Mover(name, place)
    for kind in _DEFINITIONS:
        for own, definition in _definitions(schema, kind).items():
            definitions[f"{name}.{own}"] = mover.moved(definition)
    return mover.members({key: value for key, value in schema.items() if key not in (*_DEFINITIONS, "$schema", "$id")})


def _definitions(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    found = schema.get(kind)
    return found if isinstance(found, dict) else {}


class _Mover:
    def __init__(self, name: str, place: str) -> None:
        self._name = _escaped(name)
        self._place = place

    def moved(self, schema: Any) -> Any:
        """The schema with rewritten references."""
        if isinstance(schema, list):
            return [self.moved(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        return self.members(schema)

    def members(self, schema: dict[str, Any]) -> dict[str, Any]:
        """An object schema with rewritten references."""
        return {key: self._value(key, value) for key, value in schema.items()}

    def _value(self, key: str, value: Any) -> Any:
        if key in _DATA:
            return value
        if key in _NAMED and isinstance(value, dict):
            return {name: self.moved(schema) for name, schema in value.items()}
        return self._reference(value) if key == "$ref" and isinstance(value, str) else self.moved(value)

    def _reference(self, reference: str) -> str:
        if not reference.startswith("#"):
            return reference
        steps = unquote(reference[1:]).split("/")
        if len(steps) > 2 and steps[1] in _DEFINITIONS:
            return "/".join([f"#/$defs/{self._name}.{steps[2]}", *steps[3:]])
        return self._place + "/".join(steps)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
