"""Translate the Messages API's tools to a chat's."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gateway.api.anthropic.messages_body import AnyChoice, AutoChoice, CustomTool, NoChoice, PromptBody, ToolChoice
from gateway.api.anthropic.messages_decoding import decode_tool, echo, invalid

#: The form of a tool's type, so that it can be told in a header.
_KIND: Final = re.compile(r"[a-z0-9_]{1,64}")

_MOST_NAMED: Final = 10


class ChatTools(NamedTuple):
    """The chat body's members about tools, the places that its tools come from, and what became of tools that no model
    here can have.
    """

    fields: dict[str, Any]
    places: tuple[str, ...] = ()
    adjusted: tuple[str, ...] = ()


def chat_tools(body: PromptBody, *, drop: bool) -> ChatTools:
    """Translate tools; with `drop`, Anthropic's own are left out. Raises InvalidRequest and UnsupportedParameter."""
    tools: list[CustomTool] = []
    places: list[str] = []
    adjusted: list[str] = []
    dropped: dict[str, str] = {}
    for at, fields in enumerate(body.tools or ()):
        kind = fields.get("type")
        if drop and isinstance(kind, str) and kind != "custom" and _KIND.fullmatch(kind):
            adjusted.append(f"tools.{at}={kind}:ignored")
            dropped[str(fields.get("name", kind))] = kind
            continue
        tools.append(decode_tool(fields, f"tools.{at}"))
        places.append(f"tools.{at}")
    return ChatTools(_fields(body, tools, places, dropped), tuple(places), tuple(adjusted))


def _fields(body: PromptBody, tools: list[CustomTool], places: list[str], dropped: Mapping[str, str]) -> dict[str, Any]:
    """Make the members; `dropped` are the types of tools that are left out, by their names."""
    choice = body.tool_choice
    if not tools:
        if dropped and isinstance(choice, AnyChoice | ToolChoice):
            kinds = ", ".join(list(dict.fromkeys(dropped.values()))[:_MOST_NAMED])
            raise invalid(
                "tool_choice", f"None of the tools can be had here: {kinds}. Only custom tools can be called."
            )
        if choice is not None and not isinstance(choice, NoChoice | AutoChoice):
            raise invalid("tool_choice", "This may only be there together with tools.")
        return {}
    names: set[str] = set()
    for place, tool in zip(places, tools, strict=True):
        if tool.name in names:
            raise invalid(f"{place}.name", f"There is more than one tool '{echo(tool.name)}'.")
        names.add(tool.name)
    found: dict[str, Any] = {"tools": [{"type": "function", "function": _function(tool)} for tool in tools]}
    match choice:
        case None:
            return found
        case AutoChoice():
            found["tool_choice"] = "auto"
        case AnyChoice():
            found["tool_choice"] = "required"
        case NoChoice():
            found["tool_choice"] = "none"
        case ToolChoice(name=name):
            if name not in names and name in dropped:
                raise invalid("tool_choice.name", f"The tool '{echo(name)}' cannot be had here, only custom ones can.")
            if name not in names:
                raise invalid("tool_choice.name", f"There is no tool '{echo(name)}'.")
            found["tool_choice"] = {"type": "function", "function": {"name": name}}
    if choice.disable_parallel_tool_use:
        found["parallel_tool_calls"] = False
    return found


def forces_a_call(body: PromptBody) -> bool:
    """Whether the answer must be a tool call."""
    return isinstance(body.tool_choice, AnyChoice | ToolChoice)


def _function(tool: CustomTool) -> dict[str, Any]:
    schema = tool.input_schema
    if tool.input_examples and "examples" not in schema:
        # JSON Schema's own member for examples: the model is shown the schema.
        schema = schema | {"examples": tool.input_examples}
    function: dict[str, Any] = {"name": tool.name, "parameters": schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function
