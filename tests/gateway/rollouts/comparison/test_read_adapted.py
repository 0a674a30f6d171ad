"""Answers as the gateway's own renderers write them."""

import json
from collections.abc import Callable, Sequence

import pytest

from gateway.api.anthropic.messages_renderer import MessageRenderer
from gateway.api.writers.api_adapter import AnswerHead, Counts, joined
from gateway.rollouts.comparison.answer import Answer, ToolCall
from gateway.rollouts.comparison.read_adapted import read_message, read_response
from gateway.rollouts.comparison.read_answer import NotAnAnswer
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from protos.types import FinishReason

HEAD = AnswerHead("1", 0, "m", streamed=True)
DELTAS: Sequence[Delta] = (
    Reasoning("Hm."),
    Text("Let me "),
    Text("look."),
    CallStart(0, "call_0", "look"),
    CallArguments(0, '{"a":'),
    CallArguments(0, "1}"),
    CallStart(1, "call_1", "now"),
)
ANSWER = Answer(
    text="Let me look.",
    reasoning="Hm.",
    calls=(ToolCall("look", '{"a":1}'), ToolCall("now", "{}")),
    finish="tool_calls",
    tokens=7,
)


def streamed(deltas: Sequence[Delta], finish: FinishReason = FinishReason.STOP) -> bytes:
    renderer = MessageRenderer(HEAD)
    parts = [renderer.opening(), *(renderer.render(0, [delta], None) for delta in deltas)]
    return b"".join([*parts, renderer.render(0, [], finish), renderer.closing(Counts(3, 7))])


def test_a_message_whole_and_streamed() -> None:
    assert read_message(streamed(DELTAS)) == ANSWER
    assert read_message(MessageRenderer(HEAD).whole([joined(DELTAS, FinishReason.STOP)], Counts(3, 7))) == ANSWER
    assert read_message(streamed([Text("On")], FinishReason.LENGTH)).finish == "length"


def response(**changes: object) -> dict[str, object]:
    output = [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "content": [{"type": "output_text", "text": "Let me look."}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "d", "name": "now", "arguments": "{}"},
    ]
    return {"status": "completed", "output": output, "usage": {"output_tokens": 7}} | changes


def test_a_response_whole_and_streamed() -> None:
    whole = json.dumps(response()).encode()
    assert read_response(whole) == ANSWER
    events = [b'{"type":"response.created","response":{}}', b'{"type":"response.output_text.delta","delta":"Let"}']
    events.append(b'{"type":"response.completed","response":%b}' % whole)
    assert read_response(b"".join(b"event: x\ndata: %b\n\n" % event for event in events)) == ANSWER
    cut = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert read_response(json.dumps(cut).encode()).finish == "length"


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (read_response, b"{}"),
        (read_response, b""),
        (read_response, json.dumps(response(status="failed")).encode()),
        (read_response, b'data: {"type":"response.failed","response":{}}\n\n'),
        (read_message, b""),
        (read_message, b'{"content": []}'),
        (read_message, b'{"content": 3}'),
        (read_message, streamed(DELTAS)[:-300]),
        (read_message, b'data: {"type":"error","error":{}}\n\n'),
        (read_message, b'data: {"type":"content_block_delta","index":4,"delta":{"text":"a"}}\n\n'),
    ],
)
def test_what_is_no_answer_is_refused(read: Callable[[bytes], Answer], body: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        read(body)
