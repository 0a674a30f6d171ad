from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.responses.response_answer import ResponseForm
from gateway.api.responses.responses_body import read_create
from gateway.api.responses.responses_renderer import ResponseRenderer
from gateway.api.writers.api_adapter import Call, Choice, Counts, joined
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import InvalidRequest, PenstockError, RateLimited, ReplicaUnavailable
from protos.types import FinishReason, TokenLogprobs
from tests.gateway.api.responses.shapes import checked, events_in, types_of

COUNTS = Counts(7, 9, 3, 2)
STOP = FinishReason.STOP


def _shown(entries: Sequence[TokenEntry]) -> list[dict[str, Any]]:
    return [{"token": str(i), "bytes": [49], "logprob": one.chosen, "top_logprobs": []} for i, one, _ in entries]


def renderer(*, queued: bool = False, **fields: Any) -> ResponseRenderer:
    body = read_create(orjson.dumps({"model": "m", "input": "x"} | fields))
    form = ResponseForm(body, "0" * 24, 5, "m", stored=True)
    return ResponseRenderer(form, _shown, queued=queued)


def streamed(deltas: Sequence[Delta], finish: FinishReason = STOP, **fields: Any) -> list[dict[str, Any]]:
    writes = renderer(**fields)
    stream = writes.opening() + b"".join(writes.render(0, [delta], None) for delta in deltas)
    return events_in(stream + writes.render(0, [], finish) + writes.closing(COUNTS))


def test_a_text_comes_in_its_events() -> None:
    events = streamed([Text('He"l'), Text("lo\n")])
    assert types_of(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["response"]["status"] for event in (*events[:2], events[-1])] == [
        "in_progress",
        "in_progress",
        "completed",
    ]
    assert events[4] == {
        "type": "response.output_text.delta",
        "sequence_number": 4,
        "item_id": events[2]["item"]["id"],
        "output_index": 0,
        "content_index": 0,
        "delta": 'He"l',
        "logprobs": [],
    }
    assert events[6]["text"] == 'He"llo\n'
    final = checked(events[-1]["response"])
    assert final["output"] == [events[8]["item"]]
    assert final["output"][0]["content"][0]["text"] == 'He"llo\n'
    assert final["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 3},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 16,
    }


def test_thoughts_text_and_calls_are_items_of_their_own() -> None:
    deltas: list[Delta] = [
        Reasoning("Let me"),
        Reasoning(" see."),
        Text("I ask"),
        CallStart(0, "a", "f"),
        CallArguments(0, '{"x":'),
        CallArguments(0, "1}"),
        CallStart(1, "b", "g"),
    ]
    events = streamed(deltas)
    assert types_of(events)[2:-1] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.done",
        "output_item.done",
    ]
    thought, message, call, other = checked(events[-1]["response"])["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Let me see."}]
    assert thought["summary"] == []
    assert message["content"][0]["text"] == "I ask"
    assert (call["call_id"], call["name"], call["arguments"], call["status"]) == ("a", "f", '{"x":1}', "completed")
    assert (other["call_id"], other["arguments"]) == ("b", "")
    assert len({item["id"] for item in (thought, message, call, other)}) == 4
    assert [event["output_index"] for event in events if event["type"].endswith("item.done")] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [(FinishReason.LENGTH, "max_output_tokens"), (FinishReason.CONTENT_FILTER, "content_filter")],
)
def test_what_was_cut_short_says_why(finish: FinishReason, reason: str) -> None:
    events = streamed([CallStart(0, "a", "f"), CallArguments(0, '{"x')], finish)
    final = checked(events[-1]["response"])
    assert events[-1]["type"] == "response.incomplete"
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert final["completed_at"] is None
    assert (final["output"][0]["status"], final["output"][0]["arguments"]) == ("incomplete", '{"x')


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReplicaUnavailable("gone"), "server_error"),
        (RateLimited("slow"), "rate_limit_exceeded"),
        (InvalidRequest("bad", param="max_completion_tokens"), "invalid_prompt"),
    ],
)
def test_what_breaks_has_failed(error: PenstockError, code: str) -> None:
    writes = renderer()
    events = events_in(writes.opening() + writes.render(0, [Text("He")], None) + writes.broken(error))
    assert types_of(events)[-4:] == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    final = checked(events[-1]["response"])
    assert (final["status"], final["error"]) == ("failed", {"code": code, "message": error.message})
    assert final["output"][0]["status"] == "incomplete"
    assert (writes.outcome.status, orjson.loads(writes.final)) == ("failed", final)


def test_an_empty_answer_is_an_empty_message() -> None:
    final = streamed([])[-1]["response"]
    assert [part["text"] for item in final["output"] for part in item["content"]] == [""]
    writes = renderer()
    whole = orjson.loads(writes.whole([Choice((), STOP)], COUNTS))
    assert whole["output"] == final["output"]


def test_probabilities_come_with_their_text() -> None:
    entry = TokenLogprobs(-1.0, ())
    one, two, three = (TokenEntry(i, entry, 0) for i in (1, 2, 3))
    events = streamed([Text("a", (one,)), Text("bc", (two, three))], top_logprobs=2)
    shown = [[one["token"] for one in event["logprobs"]] for event in events if "logprobs" in event]
    assert shown == [["1"], ["2", "3"], ["1", "2", "3"]]
    final = events[-1]["response"]
    assert [one["token"] for one in final["output"][0]["content"][0]["logprobs"]] == ["1", "2", "3"]
    assert final["top_logprobs"] == 2


def test_one_that_waited_says_so() -> None:
    events = events_in(renderer(queued=True, background=True).opening())
    assert types_of(events) == ["created", "queued", "in_progress"]
    assert [event["response"]["status"] for event in events] == ["queued", "queued", "in_progress"]


def test_what_was_asked_is_told_again() -> None:
    fields: dict[str, Any] = {
        "instructions": "Be kind.",
        "frequency_penalty": -0.5,
        "max_output_tokens": 5,
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "previous_response_id": "resp_1",
        "parallel_tool_calls": False,
        "presence_penalty": 1.5,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "temperature": 0.5,
        "top_p": 0.25,
        "user": "u",
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": {"type": "function", "name": "f"},
    }
    final = checked(streamed([Text("x")], **fields)[-1]["response"])
    told = {name: final[name] for name in fields}
    assert told == fields | {
        "tools": [{"description": None, "parameters": None, "strict": False, **fields["tools"][0]}]
    }
    plain = streamed([Text("x")])[-1]["response"]
    # Open Responses has them among the members that every response has.
    assert [plain["frequency_penalty"], plain["presence_penalty"]] == [0.0, 0.0]
    assert final["background"] is False
    assert final["store"] is True


_TEXTS = st.text(max_size=5)
_CALLS = st.lists(st.lists(_TEXTS, max_size=3), max_size=3)


@given(
    st.lists(st.one_of(_TEXTS.map(Text), _TEXTS.map(Reasoning)), max_size=6),
    _CALLS,
    st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]),
)
def test_the_events_of_an_answer_add_up_to_it(said: list[Delta], calls: list[list[str]], finish: FinishReason) -> None:
    deltas = list(said)
    for number, pieces in enumerate(calls):
        deltas += [CallStart(number, f"c{number}", "f"), *(CallArguments(number, piece) for piece in pieces)]
    events = streamed(deltas, finish)
    added: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    done: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(added) == len(done)
            added[event["output_index"]] = event["item"]
            texts[event["output_index"]] = ""
        elif event["type"].endswith(".delta"):
            assert event["item_id"] == added[event["output_index"]]["id"]
            texts[event["output_index"]] += event["delta"]
        elif event["type"] == "response.output_item.done":
            done.append(event["item"])
    final = events[-1]["response"]
    assert final["output"] == done
    for index, item in enumerate(done):
        text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert texts[index] == text
        assert item["id"] == added[index]["id"]
    whole = joined(deltas, finish)
    assert [item["arguments"] for item in done if item["type"] == "function_call"] == [c.arguments for c in whole.calls]
    for kind, text in (("message", whole.text), ("reasoning", whole.reasoning)):
        assert "".join(item["content"][0]["text"] for item in done if item["type"] == kind) == text
    if any(delta for delta in deltas):
        written = orjson.loads(renderer().whole([whole], COUNTS))
        assert written["output"] == final["output"]


def test_an_answer_in_one_piece_has_the_same_items() -> None:
    deltas: list[Delta] = [Reasoning("hm"), Text("ab"), CallStart(0, "a", "f"), CallArguments(0, "{}")]
    final = streamed(deltas)[-1]["response"]
    writes = renderer()
    whole = orjson.loads(writes.whole([joined(deltas, STOP)], COUNTS))
    assert joined(deltas, STOP).calls == [Call("a", "f", "{}")]
    assert checked(whole) == final | {"completed_at": whole["completed_at"]}
    assert orjson.loads(writes.final) == whole
