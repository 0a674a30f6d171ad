"""Translate the Messages API's tools to a chat's."""

from typing import Any

from gateway.api.anthropic.messages_body import AnyChoice, AutoChoice, CustomTool, NoChoice, PromptBody, ToolChoice
from gateway.api.anthropic.messages_decoding import decode_tool, echo, invalid


def chat_tools(body: PromptBody) -> dict[str, Any]:
    """Make the chat body's members about tools. Raises InvalidRequest and UnsupportedParameter."""
    tools = [decode_tool(fields, f"tools.{at}") for at, fields in enumerate(body.tools or ())]
    choice = body.tool_choice
    if not tools:
        if choice is not None and not isinstance(choice, NoChoice):
            raise invalid("tool_choice", "This may only be there together with tools.")
        return {}
    names: set[str] = set()
    for at, tool in enumerate(tools):
        if tool.name in names:
            raise invalid(f"tools.{at}.name", f"There is more than one tool '{echo(tool.name)}'.")
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
