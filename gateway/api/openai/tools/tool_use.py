"""Decide from the parameters which tools a model is offered and how it may use them."""

from collections.abc import Sequence
from typing import Final

from gateway.api.openai.tools.tool_params import AllowedTools, FunctionParam, ToolChoiceParam, ToolName, ToolParam
from gateway.text.parsing.offered_tools import Tool, ToolChoice, ToolUse
from gateway.text.schemas.schema_checks import check_schema, check_together
from protos.errors import InvalidRequest, UnsupportedParameter

_CHOICES: Final = {choice.value: choice for choice in (ToolChoice.AUTO, ToolChoice.NONE, ToolChoice.REQUIRED)}


def tool_use(
    tools: Sequence[ToolParam] | None, choice: str | ToolChoiceParam | None, parallel: bool | None
) -> ToolUse | None:
    """Read the tool parameters; None: no tools are offered, whatever `parallel` says.

    Raises InvalidRequest first; UnsupportedParameter only if everything else is valid.
    """
    if not tools:
        if choice not in (None, "none", "auto"):
            raise InvalidRequest("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
        return None
    check_together([tool.function.parameters for tool in tools if tool.function is not None], "tools")
    offered: dict[str, Tool] = {}
    foreign: UnsupportedParameter | None = None
    for index, tool in enumerate(tools):
        at = f"tools[{index}]"
        if tool.type != "function":
            foreign = foreign or _foreign_type(at, tool.type)
            continue
        if tool.function is None:
            raise _missing(f"{at}.function")
        if tool.function.name in offered:
            raise InvalidRequest(
                f"Invalid value for '{at}.function.name': another tool has the name '{tool.function.name}'.",
                param=f"{at}.function.name",
            )
        offered[tool.function.name] = _tool(tool.function, f"{at}.function")
    use = ToolUse(tuple(offered.values()), parallel=parallel is not False)
    if isinstance(choice, ToolChoiceParam):
        use, refusal = _chosen(use, choice, offered, others=foreign is not None)
        foreign = foreign or refusal
    elif choice is not None:
        use = ToolUse(use.tools, _CHOICES[choice], parallel=use.parallel)
    if foreign is not None:
        raise foreign
    return use


def _tool(function: FunctionParam, at: str) -> Tool:
    parameters = function.parameters
    if parameters is not None:
        parameters = check_schema(parameters, f"{at}.parameters", strict=bool(function.strict))
    return Tool(function.name, function.description, parameters, bool(function.strict))


def _chosen(
    use: ToolUse, choice: ToolChoiceParam, offered: dict[str, Tool], *, others: bool
) -> tuple[ToolUse, UnsupportedParameter | None]:
    """Apply a `tool_choice` object; `others`: some tools are no functions, and may be meant."""
    if choice.type == "allowed_tools":
        if choice.allowed_tools is None:
            raise _missing("tool_choice.allowed_tools")
        return _allowed(use, choice.allowed_tools, offered, others=others)
    if choice.type != "function":
        return use, _foreign_type("tool_choice", choice.type)
    if choice.function is None:
        raise _missing("tool_choice.function")
    if choice.function.name not in offered:
        raise _absent("tool_choice.function.name", choice.function.name)
    return ToolUse(use.tools, ToolChoice.NAMED, choice.function.name, use.parallel), None


def _allowed(
    use: ToolUse, allowed: AllowedTools, offered: dict[str, Tool], *, others: bool
) -> tuple[ToolUse, UnsupportedParameter | None]:
    """Reduce the offer to the allowed tools, so that the model calls no other."""
    names = set()
    foreign: UnsupportedParameter | None = None
    for index, tool in enumerate(allowed.tools):
        at = f"tool_choice.allowed_tools.tools[{index}]"
        name = _name(tool, at)
        if name is None:
            foreign = foreign or _foreign_type(at, tool.type)
        elif name not in offered:
            raise _absent(f"{at}.function.name", name)
        else:
            names.add(name)
    if foreign is not None and not others:
        raise _absent(foreign.param or "tool_choice", "")
    tools = tuple(tool for tool in use.tools if tool.name in names)
    return ToolUse(tools, _CHOICES[allowed.mode], parallel=use.parallel), foreign


def _name(tool: ToolName, at: str) -> str | None:
    if tool.type != "function":
        return None
    if tool.function is None:
        raise _missing(f"{at}.function")
    return tool.function.name


def _missing(param: str) -> InvalidRequest:
    return InvalidRequest(f"Missing required parameter: '{param}'.", param=param)


def _absent(param: str, name: str) -> InvalidRequest:
    named = f" a tool '{name[:64]}'" if name else " such a tool"
    return InvalidRequest(f"Invalid value for '{param}': 'tools' do not have{named}.", param=param)


def _foreign_type(at: str, name: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        f"Unsupported value: '{at}.type' may not be '{name}' here; only functions are supported.", param=f"{at}.type"
    )
