"""Streams of upstreams whose texts are screened: however they are cut, the same is shown of them."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.relay.answer_texts import AnswerTexts
from gateway.api.relay.screened_events import ScreenedEvents
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.filtering.filters.filter_policy import GuardRule
from gateway.filtering.filters.finding_records import Recorder
from gateway.inference.generate_request import scratch_record
from protos.errors import FilterFailed
from safety.action import Action
from safety.match import Match
from safety.screen import Rule, screened
from safety.screening import Screening
from tests.gateway.api.screened import DONE, Raises, Shown, call, delta, end, event, filter_of, pieces, rules, stream

TEXT = st.lists(
    st.sampled_from(
        ("forbidden", "for", "bid", "blue", "moon", "geheim", "GEHEIM", " ", "\n", "x", '"', "\\", "ü", "🌙")
    ),
    max_size=12,
).map("".join)
ACTIONS = st.sampled_from((Action.BLOCK, Action.REDACT, Action.FLAG))


CUTS = st.lists(st.integers(0, 99), max_size=8)


@given(text=TEXT, cuts=CUTS, action=ACTIONS, changing=st.booleans(), at_once=st.booleans(), ascii_only=st.booleans())
def test_any_cutting_of_a_text_shows_the_same(
    text: str, cuts: list[int], action: Action, changing: bool, at_once: bool, ascii_only: bool
) -> None:
    events = [delta(piece, created=at if changing else 7) for at, piece in enumerate(pieces(text, cuts))]
    if ascii_only:
        events = [b"data: " + json.dumps(json.loads(part[6:])).encode() + b"\n\n" for part in events]
    expected = screened(text, rules(action))
    shown, texts = stream([*events, end(), DONE], filter_of(rules(action)), at_once=at_once)
    assert shown.text == expected.text
    assert shown.reasons == {0: "stop" if expected.blocked is None else "content_filter"}
    assert shown.done
    found = [finding.label for sources in texts.sources.values() for each in sources for finding in each.findings]
    assert found == [finding.label for finding in expected.findings]


@given(
    said=st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), min_size=2, max_size=2),
    cuts=CUTS,
    action=ACTIONS,
    turns=st.lists(st.booleans(), max_size=40),
)
def test_thoughts_answers_and_calls_of_two_choices(
    said: list[tuple[str, str, str, str]], cuts: list[int], action: Action, turns: list[bool]
) -> None:
    queues: list[list[bytes]] = []
    for index, (thought, text, first, second) in enumerate(said):
        queue = [delta(piece, index, "reasoning_content") for piece in pieces(thought, cuts)]
        queue += [delta(piece, index) for piece in pieces(text, cuts)]
        queue += [call(piece, 0, index) for piece in pieces(first, cuts)]
        queue += [call(piece, 1, index) for piece in pieces(second, cuts)]
        queues.append([*queue, end(index)])
    events = [queues[turn].pop(0) for turn in turns if queues[turn]]
    shown, _ = stream([*events, *queues[0], *queues[1], DONE], filter_of(rules(action)), n=2)
    for index, texts in enumerate(said):
        reason = "stop"
        for key, text in zip(("reasoning_content", "content", 0, 1), texts, strict=True):
            expected = screened(text, rules(action)) if reason == "stop" else screened("", ())
            assert shown.texts.get((index, key), "") == expected.text
            if expected.blocked is not None:
                reason = "content_filter"
        assert shown.reasons[index] == reason
    assert shown.done


def test_what_is_held_comes_before_the_end_and_events_without_anything_do_not() -> None:
    events = [delta("", role="x"), delta("hello for"), delta("bid"), delta(" now"), delta(" forb"), end(), DONE]
    shown, _ = stream(events, filter_of(rules(Action.REDACT)))
    assert shown.text == "hello forbid now forb"
    contents = [choice["delta"].get("content") for chunk in shown.chunks for choice in chunk["choices"]]
    assert contents == ["", "hello ", "forbi", "d now", " forb", None]
    assert shown.chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_thoughts_are_whole_before_the_answer_and_one_call_before_the_next() -> None:
    events = [
        delta("I think forb", name="reasoning"),
        delta("Hello", name="content"),
        call(None, 0, id="a", type="function", function={"name": "f"}),
        call('{"a": "forb'),
        call(None, 1, id="b", type="function", function={"name": "g"}),
        call("{}", 1),
        end(reason="tool_calls"),
        DONE,
    ]
    shown, _ = stream(events, filter_of(rules(Action.REDACT)))
    order = [
        key
        for chunk in shown.chunks
        for choice in chunk["choices"]
        for key in [*choice["delta"], *[one["index"] for one in choice["delta"].get("tool_calls", ())]]
    ]
    assert order.index("content") > max(at for at, key in enumerate(order) if key == "reasoning")
    assert shown.texts == {
        (0, "reasoning"): "I think forb",
        (0, "content"): "Hello",
        (0, 0): '{"a": "forb',
        (0, 1): "{}",
    }
    calls = [one for chunk in shown.chunks for one in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [one["index"] for one in calls] == sorted(one["index"] for one in calls)
    assert [one["function"]["name"] for one in calls if "name" in one["function"]] == ["f", "g"]


def test_a_text_that_is_said_under_two_names_at_once() -> None:
    both = [
        event([{"index": 0, "delta": {"reasoning": piece, "reasoning_details": [{"index": 0, "text": piece}]}}])
        for piece in ("it is for", "bidden")
    ]
    shown, _ = stream([*both, end(), DONE], filter_of(rules(Action.REDACT)))
    assert shown.texts[0, "reasoning"] == "it is [TERM]"
    details = [one for c in shown.chunks for one in c["choices"][0]["delta"].get("reasoning_details", ())]
    assert "".join(one["text"] for one in details) == "it is [TERM]"


def test_a_choice_that_is_cut_off_ends_and_the_other_goes_on() -> None:
    events = [delta("one ", 0), delta("two ", 1), delta("forbidden ", 0), delta("more", 0), delta("three", 1)]
    shown, _ = stream(
        [*events, end(0), end(1), event([], usage={"total_tokens": 9}), DONE], filter_of(rules(Action.BLOCK)), n=2
    )
    assert shown.texts == {(0, "content"): "one ", (1, "content"): "two three"}
    assert shown.reasons == {0: "content_filter", 1: "stop"}
    assert shown.chunks[-1]["usage"] == {"total_tokens": 9}
    assert shown.done


def test_once_all_are_cut_off_the_stream_ends() -> None:
    events = [delta("one forbidden thing"), *[delta("more")] * 9]
    for usage in (False, True):
        shown, _ = stream(events, filter_of(rules(Action.BLOCK)), usage=usage)
        assert (shown.text, shown.reasons, shown.done) == ("one ", {0: "content_filter"}, True)
        assert ("usage" in shown.chunks[-1] and shown.chunks[-1]["choices"] == []) is usage
    shown, _ = stream([*events, end(), DONE], filter_of(rules(Action.BLOCK)), n=None)
    assert (shown.text, shown.reasons, shown.done) == ("one ", {0: "content_filter"}, True)


def test_tool_names_are_whole_and_screened_even_in_pieces() -> None:
    for names, reason in (
        (["forbidden"], "content_filter"),
        (["forb", "idden"], "content_filter"),
        (["f", "g"], "stop"),
    ):
        events = [call(None, function={"name": name}) for name in names]
        shown, _ = stream([*events, end(), DONE], filter_of(rules(Action.BLOCK)))
        assert shown.reasons == {0: reason}
        assert b"forbidden" not in orjson.dumps(shown.chunks)


def test_a_new_call_in_the_old_place_and_one_whose_id_changes() -> None:
    new = [call("for", id=name, function={"name": "f"}) for name in "ab"]
    shown, _ = stream([*new, end(), DONE], filter_of(rules(Action.REDACT)))
    assert shown.texts[0, 0] == "forfor"
    same = [call("forb", id="a", function={"name": "f"}), call("idden", id="b")]
    shown, _ = stream([*same, end(), DONE], filter_of(rules(Action.REDACT)))
    assert shown.texts[0, 0] == "[TERM]"


def test_what_goes_on_after_something_else_is_one_text_still() -> None:
    for parts, text, reason in (
        (("it is for", "given"), "it is forgiven", "stop"),
        (("it is for", "bidden now"), "it is for", "content_filter"),
        (("a forbidden ", "b forbidden c"), "a [TERM] b [TERM] c", "stop"),
        (("x" * 500 + " blue", " moon y"), "x" * 500 + " blue", "content_filter"),
    ):
        mixed = [delta(parts[0]), call("{}"), delta(parts[1])]
        shown, _ = stream([*mixed, end(), DONE], filter_of(rules(Action.REDACT)))
        assert (shown.text, shown.reasons) == (text, {0: reason})
        thoughts = [delta(parts[0], name="thinking"), delta("Hm. "), delta(parts[1], name="thinking")]
        shown, _ = stream([*thoughts, end(), DONE], filter_of(rules(Action.REDACT)))
        assert (shown.texts[0, "thinking"], shown.reasons) == (text, {0: reason})
        calls = [call(parts[0], 0), call("b", 1), call(parts[1], 0)]
        shown, _ = stream([*calls, end(), DONE], filter_of(rules(Action.REDACT)))
        assert (shown.texts[0, 0], shown.texts[0, 1], shown.reasons) == (text, "b", {0: reason})


def test_what_is_held_of_a_call_is_not_sent_after_a_cut_in_what_the_model_says() -> None:
    for name in ("content", "thinking"):
        cut = [call("a for", 0), delta("it is forbidden", name=name), end(), DONE]
        shown, _ = stream(cut, filter_of(rules(Action.BLOCK)))
        assert shown.texts == {(0, 0): "a ", (0, name): "it is "}
        assert shown.reasons == {0: "content_filter"}


@given(text=TEXT, escape=st.sets(st.sampled_from("forbidnü🌙")), cuts=CUTS, action=ACTIONS)
def test_escapes_in_arguments_hide_nothing(text: str, escape: set[str], cuts: list[int], action: Action) -> None:
    plain = json.dumps({"a": text}, ensure_ascii=False)
    written = "".join(json.dumps(c)[1:-1] if ord(c) > 127 else f"\\u{ord(c):04x}" if c in escape else c for c in plain)
    expected = screened(plain, rules(action))
    if r"\n" not in plain:  # a letter of an escape is none that is escaped itself
        shown, _ = stream([*(call(piece) for piece in pieces(written, cuts)), end(), DONE], filter_of(rules(action)))
        assert shown.texts.get((0, 0), "") == expected.text


def test_two_pieces_of_one_call_in_an_event() -> None:
    both = [{"index": 0, "function": {"arguments": text}} for text in ("a for", "ward b for")]
    ends = event([{"index": 0, "delta": {"tool_calls": both}, "logprobs": None, "finish_reason": "tool_calls"}])
    shown, _ = stream([ends, DONE], filter_of(rules(Action.BLOCK)))
    assert shown.texts == {(0, 0): "a forward b for"}


def test_what_would_show_the_text_by_other_means_is_left_out() -> None:
    logprobs = {"content": [{"token": "forbidden", "logprob": 0, "bytes": [1], "top_logprobs": []}]}
    choice = {
        "index": 0,
        "delta": {
            "content": "x forbidden y",
            "audio": {"id": "a", "data": "Zm9yYmlkZGVu", "transcript": "forbidden z"},
        },
        "logprobs": logprobs,
        "token_ids": [1, 2],
        "stop_reason": "forbidden",
        "message": {"content": "geheim"},
    }
    shown, _ = stream([event([choice], note={"deep": ["blue moon"]}), end(), DONE], filter_of(rules(Action.REDACT)))
    sent = orjson.dumps(shown.chunks).decode()
    for word in ("forbidden", "geheim", "blue moon", "Zm9y", '"token"'):
        assert word not in sent
    assert shown.text == "x [TERM] y"
    choices = [choice for chunk in shown.chunks for choice in chunk["choices"]]
    assert not any(choice.get("token_ids") or choice.get("logprobs") for choice in choices)


def test_halves_of_a_character_in_two_events() -> None:
    def raw(text: str) -> bytes:
        return b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()

    events = [
        raw("a"),
        raw("\\ud83c"),
        raw("\\udf19 forbid"),
        raw("den \\ud83c"),
        raw("b"),
        raw("c \\ud83c"),
        end(),
        DONE,
    ]
    shown, _ = stream(events, filter_of(rules(Action.REDACT)))
    assert shown.text == "a🌙 [TERM] \ufffdbc \ufffd"


@pytest.mark.parametrize(
    "bad",
    [
        b"data: forbidden\n\n",
        b'data: "forbidden"\n\n',
        b'data: {"choices":["forbidden"]}\n\n',
        b'data: {"choices":{"0":{}}}\n\n',
        b'data: {"choices":[{"index":"0","delta":{"content":"x"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]\n\n',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":["x"]}}]}\n\n',
        b'data: {"id":"\\ud800","choices":[]}\n\n',
        b'data: {"a":%b1%b}\n\n' % (b'{"b":' * 5000, b"}" * 5000),
        b"".join(delta("x", index) for index in range(1100)),
        b"".join(delta("x", 0, f"name{at}") for at in range(5000)),
    ],
)
def test_what_cannot_be_read_is_not_passed_on(bad: bytes) -> None:
    for fail_open in (False, True):
        with pytest.raises(FilterFailed) as raised:
            stream([bad], filter_of(rules(Action.FLAG), fail_open=fail_open))
        assert "forbidden" not in raised.value.message + raised.value.detail


async def test_other_lines_and_other_forms_of_events() -> None:
    text = '{"choices": [{"index": 0,\ndata: "delta": {"content": "a forbidden b"}}]}'
    data = f": ping\n\nevent: message\nid: 7\nsecret: forbidden\ndata: {text}\n\ndata:\n\n".encode()

    events = ScreenedEvents(AnswerTexts(filter_of(rules(Action.REDACT))), 1, usage=False)
    sent = await events.feed(data) + await events.feed(b"\xef\xbb\xbf" + end()) + await events.feed(DONE)
    assert sent.startswith(b": ping\n\nevent: message\nid: 7\ndata: {")
    assert b"forbidden" not in sent and b"secret" not in sent
    assert Shown(sent).text == "a [TERM] b"


def test_a_filter_that_fails() -> None:
    broken = [*rules(Action.REDACT), Rule("broken", Raises(), Action.BLOCK)]
    with pytest.raises(FilterFailed):
        stream([delta("x")], filter_of(broken))
    shown, texts = stream([delta("a forbidden thing"), end(), DONE], filter_of(broken, fail_open=True))
    assert shown.text == "a [TERM] thing"
    (choice,) = texts.sources
    (found,) = texts.sources[choice]
    assert (choice, found.received, found.failures) == (0, 17, ["broken"])
    assert [finding.rule for finding in found.findings] == ["list"]


class Guard:
    """Finds texts with a bomb in them unsafe."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def verdict(self, text: str, prompt: str | None = None, tenant: str = "") -> list[Match]:
        self.asked.append(text)
        return [Match(0, len(text), "unsafe")] if "bomb" in text else []


def test_judges_see_every_text_before_it_is_shown() -> None:
    guard = Guard()
    rule = GuardRule("guard", guard, Action.BLOCK, parallel=True, window=16, spans=False)
    filter_ = AnswerFilter(
        Screening(rules(Action.REDACT)), (rule,), "", False, Recorder(scratch_record(), "acme", False)
    )
    words = ["It is ", "forbidden ", "to speak ", "of a b", "omb", " at all, ", "says he."]
    shown, _ = stream([delta(word) for word in words], filter_)
    assert (shown.text, shown.reasons, shown.done) == ("It is [TERM] to speak ", {0: "content_filter"}, True)
    assert guard.asked[0] == "It is [TERM] to speak "
    shown, _ = stream([delta("fine"), call("{}"), call("bomb", 1), end(), DONE], filter_)
    assert shown.texts == {(0, "content"): "fine", (0, 0): "{}"}
    assert shown.reasons == {0: "content_filter"}


def test_contents_that_are_lists_of_parts() -> None:
    def parts(*said: Any) -> bytes:
        return event([{"index": 0, "delta": {"content": list(said)}, "finish_reason": None}])

    def thought(text: str) -> Any:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}

    events = [parts(thought("it is for")), parts(thought("bidden")), parts({"type": "text", "text": "a for"})]
    events += [parts({"type": "text", "text": "bidden b"}), end(), DONE]
    shown, _ = stream(events, filter_of(rules(Action.REDACT)))
    found: dict[str, str] = {}
    for each in shown.chunks:
        for part in each["choices"][0]["delta"].get("content", ()):
            text = part["text"] if part["type"] == "text" else part["thinking"][0]["text"]
            found[part["type"]] = found.get(part["type"], "") + text
    assert found == {"thinking": "it is [TERM]", "text": "a [TERM] b"}


def test_text_completions() -> None:
    def said(text: str, reason: str | None = None) -> bytes:
        return event([{"index": 0, "text": text, "logprobs": None, "finish_reason": reason}])

    shown, _ = stream([said("a for"), said("bidden b"), said("", "stop"), DONE], filter_of(rules(Action.REDACT)))
    assert (shown.texts[0, "text"], shown.reasons) == ("a [TERM] b", {0: "stop"})
    shown, _ = stream([said("a for"), said("bidden b")], filter_of(rules(Action.BLOCK)))
    assert (shown.texts[0, "text"], shown.reasons) == ("a ", {0: "content_filter"})
    assert shown.chunks[-1]["choices"][0]["text"] == ""


def test_counts_beside_every_chunk_stay() -> None:
    events = [
        delta("for", usage={"completion_tokens": 1}),
        delta("bidden", usage={"completion_tokens": 2}),
        end(),
        DONE,
    ]
    shown, _ = stream(events, filter_of(rules(Action.REDACT)), usage=True)
    assert [chunk["usage"] for chunk in shown.chunks if chunk.get("usage")] == [
        {"completion_tokens": 1},
        {"completion_tokens": 2},
    ]
    assert shown.text == "[TERM]"


def test_an_event_that_only_looks_like_the_one_before() -> None:
    """What is remembered of events must not let anything past the filters."""
    plain = delta("hello ")
    tricky = plain.replace(b'"hello "', b'"a","evil":"forbidden","x":"b"')
    doubled = plain.replace(b'"content":"hello "', b'"x":" forbidden ","content":"hello "')
    shown, _ = stream([plain, plain, tricky, plain, doubled, doubled, end(), DONE], filter_of(rules(Action.REDACT)))
    assert b"forbidden" not in orjson.dumps(shown.chunks)
    twice = b'data: {"choices":[{"index":0,"delta":{"x":" forbidden "},"delta":{"content":"a "}}]}\n\n'
    shown, _ = stream([twice, twice, twice, end(), DONE], filter_of(rules(Action.REDACT)))
    assert shown.text == "a a a "
    assert b"forbidden" not in orjson.dumps(shown.chunks)
