"""Check and render the tool calls of earlier turns and their results."""

from collections.abc import Sequence
from typing import Any, Protocol

from gateway.api.openai.tools.tool_params import MessageCall
from protos.errors import InvalidRequest, UnsupportedParameter


class _ChatMessage(Protocol):
    """The members of a message that are checked."""

    @property
    def role(self) -> str: ...
    @property
    def tool_calls(self) -> list[MessageCall] | None: ...
    @property
    def tool_call_id(self) -> str | None: ...


def check_calls(messages: Sequence[_ChatMessage]) -> dict[int, str]:
    """Check that calls and results match; return the function name of each result, by its message's place.

    The API requires that each result answers a call of the assistant's message before it, and that each call has a
    result. Raises InvalidRequest.
    """
    names: dict[int, str] = {}
    called: dict[str, str] = {}
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "tool":
            names[index] = _answered(message, f"messages[{index}]", called)
            waiting.discard(message.tool_call_id or "")
            continue
        if message.tool_call_id is not None:
            param = f"messages[{index}].tool_call_id"
            raise InvalidRequest(f"'{param}' is only allowed in messages with role 'tool'.", param=param)
        if waiting:
            break
        called = {}
        if message.tool_calls is not None:
            if message.role != "assistant":
                param = f"messages[{index}].tool_calls"
                raise InvalidRequest(f"'{param}' is only allowed in messages with role 'assistant'.", param=param)
            called = _called(message.tool_calls, f"messages[{index}].tool_calls")
            waiting = set(called)
            at = index
    if waiting:
        missing = ", ".join(f"'{one[:64]}'" for one in sorted(waiting)[:8])
        raise InvalidRequest(
            "An assistant message with 'tool_calls' must be followed by a message with role 'tool' for each of them. "
            f"There is none for {missing}.",
            param=f"messages[{at}].tool_calls",
        )
    return names


def _answered(message: _ChatMessage, at: str, called: dict[str, str]) -> str:
    param = f"{at}.tool_call_id"
    if message.tool_call_id is None:
        raise InvalidRequest(f"Missing required parameter: '{param}'.", param=param)
    name = called.get(message.tool_call_id)
    if name is None:
        raise InvalidRequest(
            f"Invalid value for '{param}': the assistant message before it has no tool call with this id.", param=param
        )
    return name


def _called(calls: Sequence[MessageCall], at: str) -> dict[str, str]:
    called: dict[str, str] = {}
    for index, call in enumerate(calls):
        if call.id in called:
            param = f"{at}[{index}].id"
            raise InvalidRequest(f"Invalid value for '{param}': another call has this id.", param=param)
        if call.type == "function" and call.function is None:
            param = f"{at}[{index}].function"
            raise InvalidRequest(f"Missing required parameter: '{param}'.", param=param)
        called[call.id] = "" if call.function is None else call.function.name
    return called


def rendered_calls(calls: Sequence[MessageCall], at: str) -> list[dict[str, Any]]:
    """Make calls in the form that chat formats take. Raises UnsupportedParameter for tools that are no functions."""
    rendered = []
    for index, call in enumerate(calls):
        if call.type != "function" or call.function is None:
            param = f"{at}[{index}].type"
            raise UnsupportedParameter(
                f"Unsupported value: '{param}' may not be '{call.type}' here; only functions are supported.",
                param=param,
            )
        function = {"name": call.function.name, "arguments": call.function.arguments}
        rendered.append({"id": call.id, "type": "function", "function": function})
    return rendered
