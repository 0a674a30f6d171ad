"""Answers of the Messages API: their events, and that these make the same message as a whole answer is."""

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gateway.api.anthropic.messages_renderer import MessageRenderer, Thoughts
from gateway.api.writers.api_adapter import AnswerHead, Counts, joined
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from protos.errors import Overloaded
from protos.types import FinishReason

HEAD = AnswerHead("abc", 7, "m", streamed=True, prompt_tokens=9)
COUNTS = Counts(prompt=10, completion=5, cached=4, reasoning=2)
_events: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def parsed(stream: bytes) -> list[dict[str, Any]]:
    """The stream's events; each says twice what it is."""
    *parts, rest = stream.decode().split("\n\n")
    assert rest == ""
    events = []
    for part in parts:
        name, data = part.split("\n")
        event = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def streamed(
    *steps: Sequence[Delta],
    finish: FinishReason = FinishReason.STOP,
    counts: Counts = COUNTS,
    thoughts: Thoughts = Thoughts.SHOWN,
) -> list[dict[str, Any]]:
    renderer = MessageRenderer(HEAD, thoughts)
    stream = renderer.opening() + b"".join(renderer.render(0, step, None) for step in steps)
    return parsed(stream + renderer.render(0, [], finish) + renderer.closing(counts))


def whole(
    *deltas: Delta,
    finish: FinishReason = FinishReason.STOP,
    counts: Counts = COUNTS,
    thoughts: Thoughts = Thoughts.SHOWN,
) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(MessageRenderer(HEAD, thoughts).whole([joined(deltas, finish)], counts))
    return found


def gathered(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the official client makes of a stream."""
    snapshot, buffers = None, dict[int, bytes]()
    for event in events:
        if event["type"] != "ping":
            checked = _events.validate_python(event)
            snapshot = accumulate_event(event=checked, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    return snapshot.to_dict()


USAGE = {
    "input_tokens": 6,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 4,
    "output_tokens": 5,
    "output_tokens_details": {"thinking_tokens": 2},
}


def test_every_event_in_its_order() -> None:
    events = streamed(
        [Reasoning("Let me ")],
        [Reasoning("see."), Text("\n\n")],
        [Text("I "), Text("ask.")],
        [CallStart(0, "call_1", "f")],
        [CallArguments(0, '{"x":'), CallArguments(0, "1}")],
        [CallStart(1, "call_2", "g")],
    )
    message = {"id": "msg_abc", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    first = message | {"stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}
    end = {"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None}

    def start(index: int, **block: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def delta(index: int, kind: str, **said: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | said}

    def stop(index: int) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": index}

    assert events == [
        {"type": "message_start", "message": first},
        {"type": "ping"},
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Let me "),
        delta(0, "thinking_delta", thinking="see."),
        delta(0, "signature_delta", signature="msg_abc-0"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text_delta", text="\n\nI "),
        delta(1, "text_delta", text="ask."),
        stop(1),
        start(2, type="tool_use", id="call_1", name="f", input={}),
        delta(2, "input_json_delta", partial_json='{"x":'),
        delta(2, "input_json_delta", partial_json="1}"),
        stop(2),
        start(3, type="tool_use", id="call_2", name="g", input={}),
        stop(3),
        {"type": "message_delta", "delta": end, "usage": USAGE},
        {"type": "message_stop"},
    ]


def test_a_whole_message() -> None:
    found = whole(
        Reasoning("Hm."),
        Text("I ask."),
        CallStart(0, "call_1", "f"),
        CallArguments(0, '{"x": 12345678901234567890123}'),
        CallStart(1, "call_2", "g"),
    )
    assert Message.model_validate(found).to_dict() == found
    assert found == {
        "id": "msg_abc",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "msg_abc-0"},
            {"type": "text", "text": "I ask."},
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {"x": 12345678901234567890123}},
            {"type": "tool_use", "id": "call_2", "name": "g", "input": {}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "usage": USAGE,
    }


@pytest.mark.parametrize(
    ("finish", "stopped_by", "expected"),
    [
        (FinishReason.STOP, None, ("end_turn", None)),
        (FinishReason.STOP, "END", ("stop_sequence", "END")),
        (FinishReason.LENGTH, None, ("max_tokens", None)),
        (FinishReason.CONTENT_FILTER, None, ("refusal", None)),
    ],
)
def test_why_it_ended(finish: FinishReason, stopped_by: str | None, expected: tuple[str, str | None]) -> None:
    counts = Counts(1, 1, stopped_by=stopped_by)
    found = whole(Text("a"), finish=finish, counts=counts)
    assert (found["stop_reason"], found["stop_sequence"]) == expected
    assert (found["stop_details"] is not None) == (finish is FinishReason.CONTENT_FILTER)
    delta = streamed([Text("a")], finish=finish, counts=counts)[-2]["delta"]
    assert (delta["stop_reason"], delta["stop_sequence"]) == expected
    assert delta["stop_details"] == found["stop_details"]


def test_a_call_that_was_cut_short_is_no_reason() -> None:
    deltas: list[Delta] = [CallStart(0, "a", "f"), CallArguments(0, '{"x":')]
    found = whole(*deltas, finish=FinishReason.LENGTH)
    assert found["stop_reason"] == "max_tokens"
    assert found["content"] == [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]
    assert streamed(deltas, finish=FinishReason.LENGTH)[-2]["delta"]["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("arguments", ["[1]", '"x"', "nonsense", "NaN", "[" * 5000])
def test_arguments_that_are_no_object_are_an_empty_one(arguments: str) -> None:
    assert whole(CallStart(0, "a", "f"), CallArguments(0, arguments))["content"][0]["input"] == {}


def test_white_space_alone_is_no_text() -> None:
    assert whole(Text(" \n"))["content"] == []
    assert [event["type"] for event in streamed([Text(" ")], [Text("\n")])] == [
        "message_start",
        "ping",
        "message_delta",
        "message_stop",
    ]


def test_thoughts_that_were_not_asked_for() -> None:
    deltas: list[Delta] = [Reasoning("Hm."), Text("Yes.")]
    omitted = {"type": "thinking", "thinking": "", "signature": "msg_abc-0"}
    said = {"type": "text", "text": "Yes."}
    for thoughts, expected in ((Thoughts.OMITTED, [omitted, said]), (Thoughts.HIDDEN, [said])):
        assert whole(*deltas, thoughts=thoughts)["content"] == expected
        assert gathered(streamed(deltas, thoughts=thoughts))["content"] == expected


def test_a_stream_that_breaks() -> None:
    renderer = MessageRenderer(HEAD)
    (event,) = parsed(renderer.broken(Overloaded("Later.")))
    assert event == {
        "type": "error",
        "error": {
            "type": "overloaded_error",
            "message": "Later.",
            "details": {"error_code": "server_is_overloaded"},
        },
        "request_id": "req_abc",
    }


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_steps = st.lists(
    st.one_of(
        _text.map(lambda text: [Text(text)]),
        _text.filter(bool).map(lambda text: [Reasoning(text)]),
        st.integers(0, 9).map(lambda n: [CallArguments(-1, f'{{"x":{n}}}')]),
    ),
    max_size=8,
)


@given(_steps, st.sampled_from(Thoughts))
def test_events_make_the_message_that_a_whole_answer_is(steps: list[list[Delta]], thoughts: Thoughts) -> None:
    calls = 0
    deltas: list[Delta] = []
    # As models write: thoughts, then text, then calls.
    for step in sorted(steps, key=lambda step: [Reasoning, Text, CallArguments].index(type(step[0]))):
        (delta,) = step
        if isinstance(delta, CallArguments):
            deltas += [CallStart(calls, f"call_{calls}", "f"), CallArguments(calls, delta.text)]
            calls += 1
        else:
            deltas.append(delta)
    found = whole(*deltas, thoughts=thoughts)
    assert gathered(streamed(*[[delta] for delta in deltas], thoughts=thoughts)) == found
    assert gathered(streamed(deltas, thoughts=thoughts)) == found
