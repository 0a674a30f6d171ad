"""Variants of a chat's answer that upstreams write: each is read as what it means, or refused by the member's name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.relay.chat_reading import CallPiece, ChoicePiece, read_answer
from protos.errors import ReplicaFailed
from protos.types import FinishReason


def read(choice: Any, **members: Any) -> ChoicePiece:
    (piece,) = read_answer(json.dumps({"choices": [choice], **members}).encode())
    return piece


def refused(data: Any, *, whole: bool = False) -> str:
    with pytest.raises(ReplicaFailed) as error:
        read_answer(json.dumps(data).encode(), whole=whole)
    return str(error.value)


def test_a_plain_chunk_is_read() -> None:
    piece = read({"index": 1, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None})
    assert piece == ChoicePiece(1, "", "Hi", (), (), None, [])


@pytest.mark.parametrize("content", ["Hi", ["Hi"], [{"type": "text", "text": "Hi"}], {"type": "text", "text": "Hi"}])
def test_text_comes_as_a_string_or_in_parts(content: Any) -> None:
    assert read({"delta": {"content": content}}).text == "Hi"


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "Hm"},
        {"reasoning": "Hm", "reasoning_content": ""},
        {"content": [{"type": "thinking", "thinking": "Hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "H"}, {"type": "text", "text": "m"}]}]},
        {"reasoning": [{"type": "text", "text": "Hm"}]},
    ],
)
def test_a_thought_comes_in_several_members(message: Any) -> None:
    piece = read({"delta": message})
    assert (piece.thought, piece.text) == ("Hm", "")


def test_a_refusal_is_the_text_where_there_is_no_other() -> None:
    assert read({"message": {"content": None, "refusal": "No."}}).text == "No."
    assert read({"message": {"content": [{"type": "refusal", "refusal": "No."}]}}).text == "No."


@pytest.mark.parametrize("reason", [None, "", False])
def test_no_reason_is_no_end(reason: Any) -> None:
    assert read({"delta": {"content": "a"}, "finish_reason": reason}).finish is None


def test_reasons_in_other_words() -> None:
    said = {
        "stop": FinishReason.STOP,
        "eos": FinishReason.STOP,
        "tool_calls": FinishReason.STOP,
        "length": FinishReason.LENGTH,
        "model_length": FinishReason.LENGTH,
        "MAX_TOKENS": FinishReason.LENGTH,
        "content_filter": FinishReason.CONTENT_FILTER,
    }
    assert {word: read({"finish_reason": word}).finish for word in said} == said


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_reason_can_be_a_failure(reason: str) -> None:
    assert "failed" in refused({"choices": [{"finish_reason": reason}]})


@pytest.mark.parametrize(
    ("call", "piece"),
    [
        ({"index": 2, "id": "a", "function": {"name": "f", "arguments": "{}"}}, CallPiece(2, "a", "f", "{}")),
        ({"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}, CallPiece(0, "a", "f", '{"x":1}')),
        ({"index": "1", "id": 7, "function": {"name": "f", "arguments": None}}, CallPiece(1, "7", "f", "")),
        ({"index": 0, "id": None, "function": {"name": "", "arguments": "{"}}, CallPiece(0, "", "", "{")),
        ({"index": 0, "function": None}, CallPiece(0, "", "", "")),
    ],
)
def test_calls_are_read(call: Any, piece: CallPiece) -> None:
    assert read({"delta": {"tool_calls": [call]}}).calls == [piece]
    if "index" not in call:
        assert read({"delta": {"tool_calls": call}}).calls == [piece]


def test_the_older_form_of_a_call_is_read() -> None:
    message = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert read({"message": message}).calls == [CallPiece(0, "", "f", "{}")]


def test_stop_strings_are_read_and_stop_tokens_are_not() -> None:
    assert read({"stop_reason": "END", "matched_stop": 2}).stops == ["END"]


@pytest.mark.parametrize(
    ("data", "member"),
    [
        ({"choices": [{"delta": {"content": 5}}]}, "choices[0].content[0]"),
        ({"choices": [{}, {"delta": {"content": [{"type": "image"}]}}]}, "choices[1].content[0].type"),
        ({"choices": [{"delta": {"content": [{"type": "text", "text": 1}]}}]}, "choices[0].content[0].text"),
        ({"choices": [{"delta": {"reasoning": 1}}]}, "choices[0].reasoning"),
        ({"choices": [{"index": -1}]}, "choices[0].index"),
        ({"choices": [{"index": True}]}, "choices[0].index"),
        ({"choices": [{"finish_reason": 3}]}, "choices[0].finish_reason"),
        ({"choices": [{"delta": {"tool_calls": [{"function": {"name": 1}}]}}]}, "choices[0].tool_calls[0].name"),
        (
            {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": 1}}]}}]},
            "choices[0].tool_calls[0].arguments",
        ),
        ({"choices": {}}, "$.choices"),
        ({"choices": [{"delta": "x"}]}, "$.choices[0].delta"),
        ([], "object"),
    ],
)
def test_what_cannot_be_read_is_named(data: Any, member: str) -> None:
    assert member in refused(data)


def test_what_is_not_json_is_said() -> None:
    with pytest.raises(ReplicaFailed, match="not JSON"):
        read_answer(b"{")


def test_a_whole_answer_has_a_message() -> None:
    assert "choices[0].message" in refused({"choices": [{"index": 0, "finish_reason": "stop"}]}, whole=True)


def test_an_error_in_a_chunk_fails() -> None:
    assert "failed" in refused({"error": {"message": "secret"}})
    assert "secret" not in refused({"error": {"message": "secret"}})


_MEMBERS = [
    *("index", "delta", "message", "content", "type", "text", "thinking", "reasoning", "refusal", "logprobs"),
    *("tool_calls", "function_call", "id", "function", "name", "arguments", "finish_reason"),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "text", "thinking", "stop", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "index",
                    "delta",
                    "message",
                    "content",
                    "type",
                    "text",
                    "thinking",
                    "reasoning",
                    "tool_calls",
                    "id",
                    "function",
                    "name",
                    "arguments",
                    "finish_reason",
                    "logprobs",
                    "function_call",
                    "refusal",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_JSON, st.booleans())
def test_any_shape_is_read_or_refused(choices: Any, whole: bool) -> None:
    try:
        pieces = read_answer(json.dumps({"choices": choices}).encode(), whole=whole)
    except ReplicaFailed:
        return
    for piece in pieces:
        assert isinstance(piece.text, str)
        assert isinstance(piece.thought, str)
        assert all(isinstance(part, str) for call in piece.calls for part in call[1:])


_NOTHING = st.sampled_from(["missing", None, ""])


@given(_NOTHING, _NOTHING, _NOTHING, st.sampled_from(["missing", None, []]))
def test_missing_null_and_empty_are_the_same(reason: Any, thought: Any, refusal: Any, calls: Any) -> None:
    given_ = {"reasoning_content": thought, "refusal": refusal, "tool_calls": calls}
    message = {"content": "Hi"} | {name: value for name, value in given_.items() if value != "missing"}
    choice: dict[str, Any] = {"delta": message} | ({} if reason == "missing" else {"finish_reason": reason})
    assert read(choice) == read({"delta": {"content": "Hi"}})
