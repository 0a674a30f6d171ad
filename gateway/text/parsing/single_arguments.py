"""Guides for arguments that are written one by one, each with texts around its value."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from gateway.text.parsing.offered_tools import Tool
from gateway.text.parsing.schema_types import single_types, types_of
from gateway.text.parsing.section_calls import STRING
from gateway.text.parsing.structural_tag import (
    ANY_TEXT,
    Format,
    arguments_schema,
    const,
    regex_format,
    schema_format,
    sequence_of,
    tag_of,
)

#: Where definitions are that a schema within another one may refer to.
_DEFINITIONS: Final = ("$defs", "definitions")
#: Members of a string's schema that ask for nothing, ...
_PLAIN: Final = frozenset({"type", "title", "description", "default", "examples", "deprecated", "$comment"})
#: ... and those that list its values.
_LISTING: Final = frozenset({"enum", "const"})
_SPECIAL: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")
_ESCAPED: Final = r"\\\g<0>"
#: Types of values that have nothing in them, and those that have few values.
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean", "null"})
_NESTING: Final = frozenset({"object", "array"})
_FEW: Final[dict[str, list[Any]]] = {"boolean": [True, False], "null": [None]}


class ArgumentForm(NamedTuple):
    """How a family writes arguments: `opening`, what `around` gives for a key and the JSON type of its value, as texts
    before and after it; `between` stands between two arguments, and `closing` after the last.

    One of `opening` and `between` is not empty. `raw` strings are written as they are, others as JSON. `split`: what
    is around a string tells it from other values.
    """

    around: Callable[[str, str], tuple[str, str]]
    closing: str
    opening: str = ""
    between: str = ""
    raw: bool = True
    split: bool = False


def single_arguments(form: ArgumentForm) -> Callable[[Tool], Format | None]:
    """Make what `CallForm.arguments` is; its `closing` is then the form's."""

    def arguments(tool: Tool) -> Format | None:
        schema = arguments_schema(tool)
        properties = schema.get("properties")
        if "$ref" in schema or not isinstance(properties, dict):
            return None if tool.strict else tag_of("", ANY_TEXT, form.closing)
        tags: list[list[Format]] = []
        for key in properties:
            values = _strict_values(form, schema, key) if tool.strict else _any_values(form, schema, key)
            if values is None or any(character in key for character in '<>"=:\n'):
                return None
            arounds = [(form.around(key, kind), value) for kind, value in values]
            tags.append([tag_of(before, value, after) for (before, after), value in arounds])
        return _all_of(form, tags) if tool.strict else _some_of(form, [one for ways in tags for one in ways])

    return arguments


_ANY_JSON: Final = schema_format({})


def _all_of(form: ArgumentForm, tags: list[list[Format]]) -> Format:
    """Write all arguments, which strict schemas require, in their order; each in one of its ways."""
    elements: list[Format] = []
    for ways in tags:
        opening = (form.between if elements else "") + form.opening
        whole = [one | {"begin": opening + one["begin"]} for one in ways]
        elements.append(whole[0] if len(whole) == 1 else {"type": "or", "elements": whole})
    return sequence_of(*elements, const(form.closing))


def _some_of(form: ArgumentForm, tags: list[Format]) -> Format:
    """Write some of the arguments, in any order."""
    if not tags:
        return const(form.closing)
    separated = {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": form.between + form.opening,
        "at_least_one": True,
        "stop_after_first": False,
    }
    return {"type": "or", "elements": [const(form.closing), tag_of(form.opening, separated, form.closing)]}


#: A value's JSON type, and its format.
_Way = tuple[str, Format]


def _any_values(form: ArgumentForm, schema: dict[str, Any], key: str) -> list[_Way]:
    types = types_of(schema, key)
    is_text = form.raw and types is not None and "string" in types and (form.split or types.isdisjoint(_NESTING))
    ways: list[_Way] = [("string", ANY_TEXT)] if is_text else []
    if not is_text or (form.split and types != STRING):
        ways.append((_kind(types), _ANY_JSON))
    return ways


def _strict_values(form: ArgumentForm, schema: dict[str, Any], key: str) -> list[_Way] | None:
    """The ways to write a value; None: there is none that keeps to its schema."""
    of_key, types = schema["properties"][key], types_of(schema, key)
    if form.raw and types is not None and "string" in types:
        members = single_types(of_key, schema)
        strings = [one for one in members if one.get("type") == "string"]
        others = [one for one in members if one.get("type") != "string"]
        text = _text(strings if form.split else members)
        rest = [_json(one, schema) for one in others] if form.split else []
        if text is not None and None not in rest:
            kinds = [_kind(types_of({"properties": {"": one}}, "")) for one in others]
            return [("string", text), *[(kind, one) for kind, one in zip(kinds, rest, strict=False) if one is not None]]
        if types == STRING:
            # A string that is alone is read as it is written.
            return None
    value = _json(of_key, schema) if isinstance(of_key, dict) else _ANY_JSON
    return None if value is None else [(_kind(types), value)]


def _kind(types: frozenset[str] | None) -> str:
    """The name for a value's type that is no string."""
    found = sorted((types or frozenset()) - STRING - {"null"}) or ["null" if types == frozenset({"null"}) else "object"]
    return "number" if found[0] == "integer" else found[0]


def _text(members: list[dict[str, Any]]) -> Format | None:
    """Values that are written as they are; None: there are constraints that only JSON can be held to."""
    if not all(one.keys() <= _PLAIN | _LISTING and one.get("type") in _SCALARS for one in members):
        return None
    listed = [_listed(one) for one in members]
    if all(values is None for values, one in zip(listed, members, strict=True) if one["type"] not in _FEW):
        if any(one["type"] not in _FEW for one in members):
            return ANY_TEXT
    elif None in listed:
        return None
    found = [value if isinstance(value, str) else json.dumps(value) for values in listed for value in values or ()]
    return regex_format(f"({'|'.join(_SPECIAL.sub(_ESCAPED, one) for one in found)})") if all(found) and found else None


def _listed(schema: dict[str, Any]) -> list[Any] | None:
    if "enum" in schema:
        return list(schema["enum"])
    return [schema["const"]] if "const" in schema else _FEW.get(schema["type"])


def _json(schema: dict[str, Any], root: dict[str, Any]) -> Format | None:
    """JSON that keeps to a schema within another one; None: it refers to what is no definition."""
    definitions = {name: root[name] for name in _DEFINITIONS if name in root}
    whole = schema | definitions
    if any(not reference.startswith(tuple(f"#/{name}/" for name in _DEFINITIONS)) for reference in _references(whole)):
        return None
    return schema_format(whole)


def _references(schema: Any) -> Iterator[str]:
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            pending += node.values()
        elif isinstance(node, list):
            pending += node
