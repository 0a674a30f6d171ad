"""Configuration errors: one line with the file, the path in it and what was expected there."""

import difflib
import json
import re
from typing import Final, TypeVar

import msgspec

from observability.printable import printable

T = TypeVar("T")

_LONGEST_ECHO: Final = 60
_AT = re.compile(r"^(?P<problem>.*) - at `(?P<path>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<field>.*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>.*)`$")
_CHOICE = re.compile(r"^Invalid enum value ")
_GOT = re.compile(r", got `.*`$")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<any>\.\.\.)\]")
#: User name and password in a URL.
_CREDENTIALS = re.compile(r"(?<=://)[^\s\"]*@")
#: msgspec's error path for a value in a mapping, whose key it leaves out.
_ANY: Final = "..."
#: Fields that refer to a secret. A user may have written the secret itself there, so values are not logged.
_SECRETS: Final = ("api_key", "encryption_key", "headers", "password", "proxy", "scrape_key")
# msgspec speaks of JSON's objects and arrays; a YAML file has mappings and lists.
_WORDS: Final = {"`": "", "array": "list", "object": "mapping", " | null": ""}


class ConfigError(ValueError):
    """An unusable configuration; the text is one line for a terminal: `FILE: PATH: PROBLEM`."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        self.source = source
        self.path = path
        self.problem = problem
        super().__init__(printable(": ".join(part for part in (source, path, problem) if part)))


def convert(value: object, to: type[T], source: str) -> T:
    """Convert plain values to a msgspec type, strictly (no string becomes a number).

    Raises:
        ConfigError: Names the path of the first value that does not fit, and what was expected there.
    """
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        path, problem = _explain(error, value, to)
        raise ConfigError(source, path, problem) from error


def echo(value: object) -> str:
    """Format a value for an error: JSON where possible, without passwords, cut to a line's length."""
    text = _CREDENTIALS.sub("***@", printable(json.dumps(value, ensure_ascii=False, default=str)))
    return text if len(text) <= _LONGEST_ECHO else text[: _LONGEST_ECHO - 3] + "..."


def _explain(error: msgspec.ValidationError, value: object, to: type) -> tuple[str, str]:
    """Turn msgspec's message into the path of the invalid value and a problem in words."""
    problem, location = str(error), "$"
    if match := _AT.match(problem):
        problem, location = match["problem"], match["path"]
    steps = _found(_steps(location), error, value, to)
    if location.startswith("key"):
        return _path(steps), "keys must be strings"
    if match := _MISSING.match(problem):
        return _path([*steps, match["field"]]), "required, but missing"
    if match := _UNKNOWN.match(problem):
        return _path([*steps, match["field"]]), f"unknown field{_suggestion(match['field'], steps, to)}"
    if _CHOICE.match(problem) and (choices := _choices_at(steps, to)):
        return _path(steps), f"expected {' or '.join(choices)}, got {echo(_at(value, steps))}"
    stripped = _GOT.sub("", problem)
    for word, plain in _WORDS.items():
        stripped = stripped.replace(word, plain)
    stripped = stripped[:1].lower() + stripped[1:]
    if any(step in _SECRETS for step in steps):
        return _path(steps), stripped
    return _path(steps), f"{stripped}, got {echo(_at(value, steps))}" if stripped.startswith("expected") else stripped


def _steps(location: str) -> list[str | int]:
    """Split msgspec's path into field names and list indexes."""
    found = _STEP.finditer(location.partition("$")[2])
    return [int(match["index"]) if match["index"] else match["name"] or _ANY for match in found]


def _found(steps: list[str | int], error: msgspec.ValidationError, value: object, to: type) -> list[str | int]:
    """Fill the keys of mappings into the path: those whose value alone causes the same error."""
    while _ANY in steps:
        at = steps.index(_ANY)
        mapping = _at(value, steps[:at])
        assert isinstance(mapping, dict)
        entries = dict(mapping)
        try:
            for key, inner in entries.items():
                mapping.clear()
                mapping[key] = inner
                steps[at] = str(key)
                if _message(value, to) == str(error):
                    break
        finally:
            mapping.clear()
            mapping.update(entries)
    return steps


def _message(value: object, to: type) -> str | None:
    try:
        msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def _suggestion(field: str, steps: list[str | int], to: type) -> str:
    """Name the field that was probably meant, or all fields that exist at this path."""
    fields = _fields_at(steps, to)
    close = difflib.get_close_matches(field, fields, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known here: {', '.join(fields)}" if fields else ""


def _fields_at(steps: list[str | int], to: type) -> list[str]:
    """The field names of the structure at a path; empty if there is no structure."""
    node = _structural(_node_at(steps, to))
    return [field.encode_name for field in node.fields] if isinstance(node, msgspec.inspect.StructType) else []


def _choices_at(steps: list[str | int], to: type) -> list[str]:
    """The values allowed at a path and whether it is a list; empty if it is not an enumeration."""
    node = _bare(_node_at(steps, to))
    parts = list(map(_bare, node.types if isinstance(node, msgspec.inspect.UnionType) else (node,)))
    lists = ["a list"] if any(isinstance(part, msgspec.inspect.VarTupleType) for part in parts) else []
    for part in parts:
        if isinstance(part, msgspec.inspect.LiteralType):
            return [*map(str, part.values), *lists]
        if isinstance(part, msgspec.inspect.EnumType):
            return [*(str(choice.value) for choice in part.cls), *lists]
    return []


def _node_at(steps: list[str | int], to: type) -> msgspec.inspect.Type:
    node: msgspec.inspect.Type = msgspec.inspect.type_info(to)
    for step in steps:
        node = _structural(node)
        if isinstance(node, msgspec.inspect.StructType):
            node = next((field.type for field in node.fields if field.encode_name == step), node)
        elif isinstance(node, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            node = node.item_type
        elif isinstance(node, msgspec.inspect.DictType):
            node = node.value_type
    return node


def _bare(node: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Unwrap annotations."""
    return _bare(node.type) if isinstance(node, msgspec.inspect.Metadata) else node


def _structural(node: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Unwrap annotations and unions to the one structured type in them."""
    node = _bare(node)
    if isinstance(node, msgspec.inspect.UnionType):
        inner = [_structural(part) for part in node.types]
        kinds = msgspec.inspect
        containers = (kinds.StructType, kinds.VarTupleType, kinds.ListType, kinds.DictType)
        return next((part for part in inner if isinstance(part, containers)), node)
    return node


def _at(value: object, steps: list[str | int]) -> object:
    """The plain value at a path."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    return value


def _path(steps: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
