"""The chunks of a chat whose answers are taken apart, and its whole answers."""

from typing import Any

import orjson
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.api.openai.chat import CHAT
from gateway.api.openai.chat_renderer import ChatRenderer
from gateway.api.writers.api_adapter import AnswerHead, Counts, joined
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import ReplicaFailed
from protos.types import FinishReason, TokenLogprobs
from tests.models import model_of

HEAD = AnswerHead("abc", 17, "m", streamed=True, fingerprint="fp")
COUNTS = Counts(7, 9, cached=3, reasoning=4)
DELTAS: list[Delta] = [
    Reasoning("Hm\n"),
    Text('say "x"'),
    CallStart(0, "call_1", "f"),
    CallArguments(0, '{"a":'),
    CallArguments(0, "1}"),
    CallStart(1, "call_2", "g"),
    CallArguments(1, "{}"),
]


def renderer(count: int = 1, *, usage: bool = False, head: AnswerHead = HEAD) -> ChatRenderer:
    return ChatRenderer(CHAT, model_of(), head, count, usage=usage)


def chunks(data: bytes) -> list[Any]:
    parts = data.decode().split("\n\n")
    assert parts.pop() == ""
    found = [orjson.loads(part.removeprefix("data: ")) for part in parts if part != "data: [DONE]"]
    for each in found:
        assert each["id"] == "chatcmpl-abc"
        assert (each["object"], each["model"], each["created"]) == ("chat.completion.chunk", "m", 17)
        assert each["system_fingerprint"] == "fp"
        ChatCompletionChunk.model_validate(each)
    return found


def test_every_delta_is_a_chunk() -> None:
    written = renderer()
    opening = chunks(written.opening())
    assert [each["choices"][0]["delta"]["role"] for each in opening] == ["assistant"]
    shown = chunks(written.render(0, DELTAS, FinishReason.STOP))
    assert [each["choices"][0]["delta"] for each in shown] == [
        {"reasoning_content": "Hm\n", "reasoning": "Hm\n"},
        {"content": 'say "x"'},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        {"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert [each["choices"][0]["finish_reason"] for each in shown] == [None] * 7 + ["tool_calls"]
    assert all("usage" not in each for each in shown)
    assert written.closing(COUNTS) == b"data: [DONE]\n\n"


@pytest.mark.parametrize("delta", DELTAS)
def test_one_delta_alone_is_written_alike(delta: Delta) -> None:
    one, several = renderer(), renderer()
    assert one.render(0, [delta], None) + one.render(0, [], FinishReason.STOP) == several.render(
        0, [delta], FinishReason.STOP
    )


def test_the_counts_where_they_are_asked_for() -> None:
    written = renderer(usage=True)
    (chunk,) = chunks(written.render(0, [Text("a")], None))
    assert chunk["usage"] is None
    (last,) = chunks(written.closing(COUNTS))
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 9,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }


def test_choices_end_by_themselves() -> None:
    written = renderer(2)
    assert [each["choices"][0]["index"] for each in chunks(written.opening())] == [0, 1]
    written.render(0, [CallStart(0, "c", "f")], None)
    (one,) = chunks(written.render(1, [], FinishReason.STOP))
    (other,) = chunks(written.render(0, [], FinishReason.STOP))
    (cut,) = chunks(renderer().render(0, [], FinishReason.LENGTH))
    reasons = [each["choices"][0]["finish_reason"] for each in (one, other, cut)]
    assert reasons == ["stop", "tool_calls", "length"]


def test_logprobs_stand_with_their_text() -> None:
    entries = (TokenEntry(5000, TokenLogprobs(-0.25, ((5000, -0.25),)), 0),)
    (chunk,) = chunks(renderer().render(0, [Text("a", entries)], None))
    (content,) = chunk["choices"][0]["logprobs"]["content"]
    assert content["logprob"] == -0.25
    assert len(content["top_logprobs"]) == 1


def test_an_error_is_the_last_event() -> None:
    assert orjson.loads(renderer().broken(ReplicaFailed("gone"))[6:])["error"]["message"] == "gone"


def test_a_whole_answer() -> None:
    head = AnswerHead("abc", 17, "m", streamed=False)
    choices = [joined(DELTAS, FinishReason.STOP), joined([CallStart(0, "c", "f")], FinishReason.LENGTH)]
    parsed = orjson.loads(renderer(2, head=head).whole(choices, COUNTS))
    answer = ChatCompletion.model_validate(parsed)
    first, second = answer.choices
    assert first.message.content == 'say "x"'
    assert parsed["choices"][0]["message"]["reasoning_content"] == "Hm\n"
    assert [(call.function.name, call.function.arguments) for call in first.message.tool_calls or ()] == [  # type: ignore[union-attr]
        ("f", '{"a":1}'),
        ("g", "{}"),
    ]
    assert (first.finish_reason, second.finish_reason) == ("tool_calls", "length")
    assert (second.message.content, first.logprobs) == (None, None)
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 4
