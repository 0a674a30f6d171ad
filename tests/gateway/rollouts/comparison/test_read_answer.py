import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rollouts.comparison.answer import Answer, ToolCall
from gateway.rollouts.comparison.read_answer import NotAnAnswer, read_answer


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **others: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": choices, **others}).encode() + b"\n\n"


def test_a_whole_chat() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }
    body = {
        "choices": [
            {"index": 1, "message": {"content": "x"}},
            {"index": 0, "message": message, "finish_reason": "tool_calls"},
        ],
        "usage": {"completion_tokens": 9},
    }
    assert read_answer(json.dumps(body).encode()) == Answer(
        reasoning="Hm.", calls=(ToolCall("look", "{}"),), finish="tool_calls", tokens=9
    )


def test_a_whole_completion() -> None:
    body = {"choices": [{"text": "Yes", "index": 0, "finish_reason": "stop"}]}
    assert read_answer(json.dumps(body).encode()) == Answer(text="Yes", finish="stop")


def test_a_stream_is_the_same_answer() -> None:
    body = b"".join(
        [
            chunk({"role": "assistant", "content": ""}),
            b": keep-alive\n\n",
            chunk({"reasoning_content": "Hm."}),
            chunk({"content": "Ye"}),
            chunk({"content": "s"}),
            chunk({"tool_calls": [{"index": 1, "function": {"name": "book", "arguments": ""}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": '{"a"'}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            chunk({}, "tool_calls"),
            chunk(usage={"completion_tokens": 7}),
            b"data: [DONE]\n\n",
        ]
    )
    assert read_answer(body) == Answer(
        text="Yes",
        reasoning="Hm.",
        calls=(ToolCall("look", '{"a":1}'), ToolCall("book", "")),
        finish="tool_calls",
        tokens=7,
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "breaks off"),
        (b"<html>", "breaks off"),
        (b"{", "no answer of the API"),
        (b'{"choices": []}', "no choice"),
        (b'{"choices": [{"message": {"content": 1}}]}', "no answer of the API"),
        (b'{"error": {"code": "overloaded", "message": "secret"}}', "the error overloaded"),
        (chunk({"content": "Ye"}), "breaks off"),
        (chunk({"content": "Ye"}) + b'data: {"error": {"type": "server_error"}}\n\ndata: [DONE]\n\n', "server_error"),
        (chunk({"tool_calls": [{"index": -1}]}) + b"data: [DONE]\n\n", "tool call number -1"),
    ],
)
def test_what_is_no_answer_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(NotAnAnswer, match=problem) as refused:
        read_answer(body)
    assert "secret" not in str(refused.value)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: b"data: " + text.encode("utf-8", "replace")))
def test_any_bytes_are_an_answer_or_refused(body: bytes) -> None:
    with contextlib.suppress(NotAnAnswer):
        read_answer(body)
