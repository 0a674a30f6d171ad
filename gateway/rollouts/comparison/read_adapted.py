"""Read answers of APIs on top of chats, whole or streamed: OpenAI's Responses and Anthropic's Messages."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gateway.rollouts.comparison.answer import Answer, ToolCall
from gateway.rollouts.comparison.read_answer import NotAnAnswer, data_of

#: Chats' words for why a message ended.
_STOPS: Final = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
_INCOMPLETE: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}
_ENDS: Final = ("response.completed", "response.incomplete")


class _Usage(msgspec.Struct):
    output_tokens: int = 0


class _Content(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Output(msgspec.Struct):
    type: str
    content: list[_Content] = []
    name: str = ""
    arguments: str = ""


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str
    output: list[_Output]
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


class _ResponseEvent(msgspec.Struct):
    type: str
    response: msgspec.Raw = msgspec.Raw(b"null")


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


class _Message(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Delta(msgspec.Struct):
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _MessageEvent(msgspec.Struct):
    type: str
    index: int = -1
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


_RESPONSE: Final = msgspec.json.Decoder(_Response)
_RESPONSE_EVENT: Final = msgspec.json.Decoder(_ResponseEvent)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_MESSAGE_EVENT: Final = msgspec.json.Decoder(_MessageEvent)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_response(body: bytes) -> Answer:
    """Read a response, or the one at the end of its events. Raises NotAnAnswer."""
    try:
        if body.lstrip()[:1] == b"{":
            return _of_response(_RESPONSE.decode(body))
        for data in data_of(body):
            event = _RESPONSE_EVENT.decode(data)
            if event.type in _ENDS:
                return _of_response(_RESPONSE.decode(event.response))
    except _UNREADABLE as error:
        raise NotAnAnswer(f"no answer of the API: {error}") from error
    raise NotAnAnswer("the stream breaks off")


def read_message(body: bytes) -> Answer:
    """Read a message, whole or by its events. Raises NotAnAnswer."""
    try:
        if body.lstrip()[:1] == b"{":
            message = _MESSAGE.decode(body)
            calls = [msgspec.json.encode(block.input or {}).decode() for block in message.content]
            return _of_message(message, calls)
        return _of_events(map(_MESSAGE_EVENT.decode, data_of(body)))
    except _UNREADABLE as error:
        raise NotAnAnswer(f"no answer of the API: {error}") from error


def _of_response(response: _Response) -> Answer:
    details = response.incomplete_details
    if response.status not in ("completed", "incomplete"):
        raise NotAnAnswer(f"it is {response.status}")
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [part for item in response.output if item.type == "reasoning" for part in item.content]
    calls = tuple(ToolCall(item.name, item.arguments) for item in response.output if item.type == "function_call")
    finish = "tool_calls" if calls else "stop"
    if response.status == "incomplete":
        finish = _INCOMPLETE.get(details.reason or "" if details is not None else "", "stop")
    return Answer(
        text="".join([part.text for part in parts]),
        reasoning="".join([part.text for part in thoughts]),
        refusal="".join([part.refusal for part in parts]),
        calls=calls,
        finish=finish,
        tokens=response.usage.output_tokens if response.usage is not None else 0,
    )


def _of_message(message: _Message, inputs: list[str]) -> Answer:
    if message.stop_reason is None:
        raise NotAnAnswer("the message has not ended")
    return Answer(
        text="".join([block.text for block in message.content]),
        reasoning="".join([block.thinking for block in message.content]),
        calls=tuple(
            ToolCall(block.name, given)
            for block, given in zip(message.content, inputs, strict=True)
            if block.type == "tool_use"
        ),
        finish=_STOPS.get(message.stop_reason, "stop"),
        tokens=message.usage.output_tokens if message.usage is not None else 0,
    )


def _of_events(events: Iterator[_MessageEvent]) -> Answer:
    message = _Message([])
    inputs: list[str] = []
    for event in events:
        if event.content_block is not None:
            message.content.append(event.content_block)
            inputs.append("")
        elif event.type == "content_block_delta" and event.delta is not None:
            if event.index != len(message.content) - 1:
                raise NotAnAnswer(f"it has a part of the block number {event.index}")
            block = message.content[-1]
            block.text += event.delta.text
            block.thinking += event.delta.thinking
            inputs[-1] += event.delta.partial_json
        elif event.type == "message_delta" and event.delta is not None:
            message.stop_reason, message.usage = event.delta.stop_reason, event.usage
        elif event.type == "error":
            raise NotAnAnswer("it ended with an error")
    return _of_message(message, [given or "{}" for given in inputs])
