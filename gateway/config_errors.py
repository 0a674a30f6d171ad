"""Errors of a configuration: one line that names the file, the place in it and what was expected there."""

import difflib
import json
import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_LONGEST_ECHO: Final = 60
_AT = re.compile(r"^(?P<problem>.*) - at `(?P<path>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<field>.*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>.*)`$")
_GOT = re.compile(r", got `.*`$")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]")
# msgspec speaks JSON; the reader of a YAML file speaks of lists and mappings.
_WORDS: Final = {"`": "", "array": "list", "object": "mapping"}


class ConfigError(ValueError):
    """A configuration that cannot be used; the text is one line, `FILE: PATH: PROBLEM`, made for a terminal."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        self.source = source
        self.path = path
        self.problem = problem
        super().__init__(": ".join(part for part in (source, path, problem) if part))


def convert(value: object, to: type[T], source: str) -> T:
    """Check plain values against a msgspec type, strictly (no string becomes a number).

    Raises:
        ConfigError: Names the path of the first value that does not fit, and what was expected there.
    """
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        path, problem = _explain(str(error), value, to)
        raise ConfigError(source, path, problem) from error


def echo(value: object) -> str:
    """A value as an error shows it: JSON where it has a form there, cut to a line's length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_ECHO else text[: _LONGEST_ECHO - 3] + "..."


def _explain(message: str, value: object, to: type) -> tuple[str, str]:
    """Turn msgspec's message into the path of the culprit and the problem in a reader's words."""
    problem, location = message, "$"
    if match := _AT.match(message):
        problem, location = match["problem"], match["path"]
    if location.startswith("key"):
        return _path(location.partition("$")[2]), "keys must be strings"
    path = _path(location[1:])
    if match := _MISSING.match(problem):
        return _join(path, match["field"]), "required, but missing"
    if match := _UNKNOWN.match(problem):
        return _join(path, match["field"]), f"unknown field{_suggestion(match['field'], location, value, to)}"
    stripped = _GOT.sub("", problem)
    for word, plain in _WORDS.items():
        stripped = stripped.replace(word, plain)
    stripped = stripped[:1].lower() + stripped[1:]
    return path, f"{stripped}, got {echo(_at(value, location))}" if stripped.startswith("expected") else stripped


def _suggestion(field: str, location: str, value: object, to: type) -> str:
    """Name the field that was probably meant, or all that exist at this place."""
    fields = _fields_at(location, to)
    close = difflib.get_close_matches(field, fields, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known here: {', '.join(fields)}" if fields else ""


def _fields_at(location: str, to: type) -> list[str]:
    """The names of the fields that the structure at a path has; empty where the path leads to none."""
    node: msgspec.inspect.Type = msgspec.inspect.type_info(to)
    for match in _STEP.finditer(location):
        node = _structural(node)
        if isinstance(node, msgspec.inspect.StructType):
            node = next((field.type for field in node.fields if field.encode_name == match["name"]), node)
        elif isinstance(node, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            node = node.item_type
    node = _structural(node)
    return [field.encode_name for field in node.fields] if isinstance(node, msgspec.inspect.StructType) else []


def _structural(node: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Look through annotations and unions for the one part that has an inside."""
    if isinstance(node, msgspec.inspect.Metadata):
        return _structural(node.type)
    if isinstance(node, msgspec.inspect.UnionType):
        inner = [_structural(part) for part in node.types]
        containers = (msgspec.inspect.StructType, msgspec.inspect.VarTupleType, msgspec.inspect.ListType)
        return next((part for part in inner if isinstance(part, containers)), node)
    return node


def _at(value: object, location: str) -> object:
    """The plain value at a path that msgspec named."""
    for match in _STEP.finditer(location):
        if isinstance(value, dict) and match["name"] is not None:
            value = value.get(match["name"])
        elif isinstance(value, list) and match["index"] is not None:
            value = value[int(match["index"])]
    return value


def _path(location: str) -> str:
    return location.removeprefix(".")


def _join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field
