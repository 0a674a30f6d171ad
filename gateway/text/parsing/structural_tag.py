"""Structural tags: guides for answers that may have calls in them, as XGrammar (0.1.25 and newer) describes them.

Of its formats only what its oldest such version takes is used: separators that are not empty, and alternatives that are
all lists of tags, or end with one.
"""

import json
from collections.abc import Callable
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


def json_arguments(tool: Tool) -> Format:
    """The format of arguments that are a JSON object."""
    return schema_format(guiding_schema(tool))


class CallForm(NamedTuple):
    """A family's form of a call: `opening`, what `lead` matches, the tool's name, one of `middles`, what `arguments`
    makes for the tool, `closing`.

    The calls of an answer are between `begin` and `end`, with `separator` between them. `arguments` gives None for a
    tool whose arguments the family's form cannot be held to.
    """

    opening: str
    middles: tuple[str, ...]
    closing: str
    separator: str = ""
    begin: str = ""
    end: str = ""
    lead: str = ""
    arguments: Callable[[Tool], Format | None] = json_arguments


def strict_tag(use: ToolUse, triggers: Items[str], forms: Items[CallForm]) -> str | None:
    """The guide for strict tools in an answer that is free but for calls; None: no tool is strict, or one cannot be.

    After one of the triggers the model must call a tool in one of the forms; the part of a form before it is free, too.
    Without triggers the beginnings of the forms are some, each with a tool's name. A tool that is not strict may get
    any arguments.
    """
    if not any(tool.strict for tool in use.tools):
        return None
    tags: list[Format] = []
    for tool in use.tools:
        for form in forms:
            whole = not triggers or form.begin.startswith(tuple(triggers))
            begin, end = (form.begin, form.end) if whole else ("", "")
            named = _named(form, tool)
            if named is None:
                return None
            tags += [tag_of(begin + form.opening + text, content, form.closing + end) for text, content in named]
    begins = dict.fromkeys(tag["begin"] for tag in tags)
    return _written({"type": "triggered_tags", "triggers": list(triggers or begins), "tags": tags})


def calls_or_answer_tag(
    use: ToolUse, forms: Items[CallForm], answer: Items[Format], thought: Items[Format]
) -> str | None:
    """The guide for calls in one of the forms, or one of the tags of `answer`; `thought`, if any, may come first.

    None: a tool's arguments cannot be guided.
    """
    ways: list[Format] = []
    for form in forms:
        calls = _calls(use, form)
        if calls is None:
            return None
        ways.append(calls)
    ways.append(_one_of(answer))
    if thought:
        ways.append({"type": "sequence", "elements": [*thought, {"type": "or", "elements": list(ways)}]})
    return _written({"type": "or", "elements": ways})


def answer_format(guide: Guide) -> Format | None:
    """The format of a guide of whole answers; None: structural tags have no such format beside others."""
    if guide.kind is GuideKind.JSON_OBJECT:
        return schema_format({"type": "object"})
    if guide.kind is GuideKind.JSON_SCHEMA:
        return schema_format(json.loads(guide.text))
    return regex_format(guide.text) if guide.kind is GuideKind.REGEX else None


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
    """The schema of a tool's arguments, which are an object whether the schema says so or not."""
    if not tool.parameters:
        return NO_ARGUMENTS
    return tool.parameters if "type" in tool.parameters else {"type": "object"} | tool.parameters


def _named(form: CallForm, tool: Tool) -> list[tuple[str, Format]] | None:
    """Return a tool's part between its form's opening and closing: a text, and the format of what follows it."""
    arguments = form.arguments(tool)
    if arguments is None:
        return None
    texts = [tool.name + middle for middle in form.middles]
    if not form.lead:
        return [(text, arguments) for text in texts]
    return [("", sequence_of(regex_format(form.lead), const(text), arguments)) for text in texts]


def _calls(use: ToolUse, form: CallForm) -> Format | None:
    """One or more calls, exactly one without `parallel`. Text between two calls becomes the separator of the tags."""
    opening, end = form.begin + form.opening, form.closing + form.end
    tags: list[Format] = []
    for tool in use.tools:
        named = _named(form, tool)
        if named is None:
            return None
        tags += [tag_of(text, content, "") for text, content in named]
    calls = {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": form.closing + form.separator + form.opening,
        "at_least_one": True,
        "stop_after_first": not use.parallel,
    }
    if end:
        return _one_of([tag_of(opening, calls, end)])
    return sequence_of(const(opening), calls)


def _one_of(tags: Items[Format]) -> Format:
    return {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": True,
    }


def schema_format(schema: dict[str, Any]) -> Format:
    """JSON that keeps to a schema."""
    return {"type": "json_schema", "json_schema": schema}


def regex_format(pattern: str) -> Format:
    """Text that matches a pattern, which is not empty."""
    return {"type": "regex", "pattern": pattern}


def const(text: str) -> Format:
    """A text, which is not empty."""
    return {"type": "const_string", "value": text}


def sequence_of(*elements: Format) -> Format:
    """One format after another."""
    return {"type": "sequence", "elements": list(elements)}


def _written(form: Format) -> str:
    # Not orjson: a schema's numbers may exceed 64 bits.
    return json.dumps({"type": "structural_tag", "format": form}, ensure_ascii=False, separators=(",", ":"))
