"""Translate tools of the Responses API to a chat's; those that OpenAI runs itself are refused by their type."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from gateway.api.server.body_decoder import MAX_ECHO, read_part
from protos.errors import InvalidRequest, UnsupportedParameter

_CHOICES: Final = ("none", "auto", "required")


class _FunctionTool(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    name: Annotated[str, Meta(min_length=1)]
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None


class _NamedChoice(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    name: Annotated[str, Meta(min_length=1)]


class _AllowedTools(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    mode: str
    tools: list[dict[str, Any]]


def chat_tools(tools: list[dict[str, Any]] | None, choice: str | dict[str, Any] | None) -> dict[str, Any]:
    """Make a chat's `tools` and `tool_choice`, where given. Raises InvalidRequest or UnsupportedParameter."""
    offered = [_function(tool, f"tools[{position}]") for position, tool in enumerate(tools or ())]
    chosen = _choice(choice)
    if isinstance(chosen, _AllowedTools):
        offered, chosen = _allowed(offered, chosen)
    fields: dict[str, Any] = {"tools": offered} if offered else {}
    if chosen is not None and (offered or chosen != "auto"):
        fields["tool_choice"] = chosen
    return fields


def shown_tools(tools: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Make the tools as the response repeats them: `strict` defaults to false."""
    return [{"description": None, "parameters": None, "strict": False, **tool} for tool in tools or ()]


def _function(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind != "function":
        if not isinstance(kind, str):
            raise InvalidRequest(f"Missing required parameter: '{where}.type'.", param=f"{where}.type")
        raise UnsupportedParameter(
            f"Unsupported value: '{where}.type' may not be '{kind[:MAX_ECHO]}'; only functions can be called here.",
            param=f"{where}.type",
        )
    found = read_part(tool, _FunctionTool, where)
    if found.defer_loading:
        raise _unsupported(f"{where}.defer_loading")
    if found.allowed_callers is not None and found.allowed_callers != ["direct"]:
        raise _unsupported(f"{where}.allowed_callers")
    function: dict[str, Any] = {"name": found.name}
    if found.description is not None:
        function["description"] = found.description
    if found.parameters is not None:
        function["parameters"] = found.parameters
    if found.strict is not None:
        function["strict"] = found.strict
    return {"type": "function", "function": function}


def _choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | _AllowedTools | None:
    if choice is None:
        return None
    if isinstance(choice, str):
        if choice not in _CHOICES:
            raise InvalidRequest(
                f"Invalid value for 'tool_choice': '{choice[:MAX_ECHO]}' is none of {', '.join(_CHOICES)}.",
                param="tool_choice",
            )
        return choice
    kind = choice.get("type")
    if kind == "function":
        return {"type": "function", "function": {"name": read_part(choice, _NamedChoice, "tool_choice").name}}
    if kind == "allowed_tools":
        return read_part(choice, _AllowedTools, "tool_choice")
    raise UnsupportedParameter(
        f"Unsupported value: 'tool_choice.type' may not be '{str(kind)[:MAX_ECHO]}' here.", param="tool_choice.type"
    )


def _allowed(offered: list[dict[str, Any]], choice: _AllowedTools) -> tuple[list[dict[str, Any]], str]:
    """Reduce the offer to the allowed tools."""
    if choice.mode not in ("auto", "required"):
        raise InvalidRequest(
            f"Invalid value for 'tool_choice.mode': '{choice.mode[:MAX_ECHO]}' is neither auto nor required.",
            param="tool_choice.mode",
        )
    known = {tool["function"]["name"]: tool for tool in offered}
    allowed = []
    for position, tool in enumerate(choice.tools):
        name = tool.get("name")
        found = known.get(name) if tool.get("type") == "function" and isinstance(name, str) else None
        if found is None:
            param = f"tool_choice.tools[{position}]"
            raise InvalidRequest(f"Invalid value for '{param}': it is none of 'tools'.", param=param)
        allowed.append(found)
    return allowed, choice.mode


def _unsupported(param: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
