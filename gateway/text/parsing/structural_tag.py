"""Structural tags: guides for answers that may have calls in them, as XGrammar (0.1.25 and newer) describes them.

Of its formats only what its oldest such version takes is used: separators that are not empty, and alternatives that are
all lists of tags, or end with one.
"""

import json
from collections.abc import Sequence as Items
from typing import Any, Final, NamedTuple

from gateway.text.parsing.offered_tools import Tool, ToolUse
from protos.types import Guide, GuideKind

#: A format object of a structural tag.
Format = dict[str, Any]

#: The arguments schema of a tool without parameters.
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
ANY_TEXT: Format = {"type": "any_text"}
#: The keys for arguments in calls that are JSON objects.
CALL_ARGUMENTS: Final = frozenset({"arguments", "parameters"})


class CallForm(NamedTuple):
    """A family's form of a call: `opening`, the tool's name, one of `middles`, the arguments, `closing`.

    The calls of an answer are between `begin` and `end`, with `separator` between them.
    """

    opening: str
    middles: tuple[str, ...]
    closing: str
    separator: str = ""
    begin: str = ""
    end: str = ""


def strict_tag(use: ToolUse, trigger: str, forms: Items[CallForm]) -> str | None:
    """The guide for strict tools in an answer that is free but for calls; None: no tool is strict.

    After `trigger` the model must call a tool in one of the forms; the part of a form before it is free, too. A tool
    that is not strict may get any object as arguments.
    """
    if not any(tool.strict for tool in use.tools):
        return None
    tags = []
    for tool in use.tools:
        for form in forms:
            begin, end = (form.begin, form.end) if form.begin.startswith(trigger) else ("", "")
            for middle in form.middles:
                opening = f"{begin}{form.opening}{tool.name}{middle}"
                tags.append(tag_of(opening, _schema(guiding_schema(tool)), form.closing + end))
    return _written({"type": "triggered_tags", "triggers": [trigger], "tags": tags})


def calls_or_answer_tag(use: ToolUse, forms: Items[CallForm], answer: Items[Format], thought: Items[Format]) -> str:
    """The guide for calls in one of the forms, or one of the tags of `answer`; `thought`, if any, may come first."""
    ways = [_calls(use, form) for form in forms]
    ways.append(_one_of(answer))
    if thought:
        ways.append({"type": "sequence", "elements": [*thought, {"type": "or", "elements": list(ways)}]})
    return _written({"type": "or", "elements": ways})


def answer_format(guide: Guide) -> Format | None:
    """The format of a guide of whole answers; None: structural tags have no such format beside others."""
    if guide.kind is GuideKind.JSON_OBJECT:
        return _schema({"type": "object"})
    if guide.kind is GuideKind.JSON_SCHEMA:
        return _schema(json.loads(guide.text))
    return {"type": "regex", "pattern": guide.text} if guide.kind is GuideKind.REGEX else None


def may_be_call(answer: Format) -> bool:
    """Whether an answer in this format might be an object with the members of a call, as far as is plain."""
    schema = answer.get("json_schema")
    if not isinstance(schema, dict) or "$ref" in schema:
        return True
    if schema.get("type", "object") != "object":
        return isinstance(schema["type"], list)
    named = schema.get("properties", {})
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    return not closed or ("name" in named and not CALL_ARGUMENTS.isdisjoint(named))


def tag_of(begin: str, content: Format, end: str) -> Format:
    """A tag: a format between two texts, which may be empty."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def guiding_schema(tool: Tool) -> dict[str, Any]:
    """The schema for guiding a tool's arguments."""
    return arguments_schema(tool) if tool.strict else {"type": "object"}


def arguments_schema(tool: Tool) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    return NO_ARGUMENTS if tool.parameters is None else tool.parameters


def _calls(use: ToolUse, form: CallForm) -> Format:
    """One or more calls, exactly one without `parallel`. Text between two calls becomes the separator of the tags."""
    opening, end = form.begin + form.opening, form.closing + form.end
    calls = {
        "type": "tags_with_separator",
        "tags": [
            tag_of(tool.name + middle, _schema(guiding_schema(tool)), "")
            for tool in use.tools
            for middle in form.middles
        ],
        "separator": form.closing + form.separator + form.opening,
        "at_least_one": True,
        "stop_after_first": not use.parallel,
    }
    if end:
        return _one_of([tag_of(opening, calls, end)])
    return {"type": "sequence", "elements": [{"type": "const_string", "value": opening}, calls]}


def _one_of(tags: Items[Format]) -> Format:
    return {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": True,
    }


def _schema(schema: dict[str, Any]) -> Format:
    return {"type": "json_schema", "json_schema": schema}


def _written(form: Format) -> str:
    # Not orjson: a schema's numbers may exceed 64 bits.
    return json.dumps({"type": "structural_tag", "format": form}, ensure_ascii=False, separators=(",", ":"))
