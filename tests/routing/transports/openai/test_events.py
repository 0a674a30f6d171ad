"""Streams of an upstream, however they are cut, written and named."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.token_counts import TokenCounts
from routing.transports.openai.events import MAX_EVENT_BYTES, BadStream, EventStream
from routing.transports.openai.model_name import ModelName
from routing.transports.openai.usage_forms import counts_of

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
DONE = b"data: [DONE]\n\n"


def event(**members: object) -> bytes:
    return b"data: " + json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def token(text: str, model: str = "theirs", **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return event(id="c", model=model, choices=[choice], **more)


def fed(data: bytes, cuts: list[int], *, usage: bool = False, model: str = "ours") -> tuple[bytes, EventStream]:
    stream = EventStream(model, usage=usage)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    shown = b"".join(stream.feed(data[start:end]) for start, end in pairwise(places))
    return shown + stream.close(), stream


texts = st.text(max_size=12) | st.sampled_from(
    ['"usage"', "[DONE]", '"error"', "data: x", '"length"', ',"usage":null', '"model":"theirs"', "\r\n", "\\", "\n\n"]
)
events = st.one_of(
    st.builds(token, texts),
    st.builds(token, texts, model=st.sampled_from(["theirs", "ours", "", "other", "model"])),
    st.builds(token, texts, usage=st.none()),
    st.builds(token, texts, usage=st.just(USAGE)),
    st.builds(token, texts, error=st.none()),
    st.just(b": ping\n\n"),
    st.just(b"event: x\ndata: {}\n\n"),
    st.just(event(model="theirs", choices=[{"index": 1, "delta": {}, "finish_reason": "length"}])),
    st.just(event(model="theirs", choices=[], usage=USAGE)),
    st.just(b'data: {"usage": null, "model": "theirs", "choices": []}\n\n'),
    st.just(b"\n"),
)


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(events, max_size=8),
    cuts=st.lists(st.integers(0, 4000), max_size=12),
    usage=st.booleans(),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    after=st.sampled_from([b"", b": more\n\n", b"x"]),
)
def test_any_cutting_gives_the_same(parts: list[bytes], cuts: list[int], usage: bool, end: bytes, after: bytes) -> None:
    data = b"".join([*parts, DONE, after]).replace(b"\n", end)
    whole, once = fed(data, [], usage=usage)
    shown, stream = fed(data, cuts, usage=usage)
    assert shown == whole
    assert (stream.usage, stream.cut, stream.done) == (once.usage, once.cut, True)
    assert shown.endswith(DONE)
    assert shown.count(DONE) == 1
    found = [json.loads(text[6:]) for text in shown.split(b"\n\n") if text.startswith(b"data: {")]
    assert all(one.get("model", "ours") == "ours" for one in found)
    if not usage:
        assert not any("usage" in one for one in found)
    assert [one["choices"] for one in found if one.get("choices")] == [
        one["choices"]
        for text in b"".join(parts).split(b"\n\n")
        if text.lstrip(b"\n").startswith(b"data: {")
        for one in [json.loads(text.lstrip(b"\n")[6:])]
        if one.get("choices")
    ]


def test_whole_events_that_need_no_change_are_passed_on_as_they_are() -> None:
    stream = EventStream("theirs", usage=False)
    data = token("x")
    for _ in range(3):
        assert stream.feed(data) is data
    two = token("y") + token("z")
    assert stream.feed(two) is two
    assert stream.seen == 5


@pytest.mark.parametrize("spaced", [False, True])
def test_the_counts_are_taken_and_left_out_unless_they_were_asked_for(spaced: bool) -> None:
    last = event(model="m", choices=[], usage=USAGE)
    first = token("x", model="m", usage=None)
    if spaced:
        last, first = last.replace(b":", b": "), first.replace(b'"usage":null', b'"usage": null')
    shown, stream = fed(first + last + DONE, [], model="m")
    assert shown == token("x", model="m") + DONE
    assert counts_of(stream.usage) == TokenCounts(7, 3, cached=5)
    assert fed(first + last + DONE, [], model="m", usage=True)[0] == first + last + DONE


def test_counts_within_a_chunk_of_text_are_taken_out_of_it() -> None:
    shown, stream = fed(token("x", model="m", usage=USAGE) + DONE, [], model="m")
    assert shown == token("x", model="m") + DONE
    assert stream.usage is not None


def test_why_an_answer_ended() -> None:
    _, stream = fed(event(choices=[{"index": 2, "delta": {}, "finish_reason": "length"}]) + DONE, [])
    assert stream.cut == {2}


@pytest.mark.parametrize(
    "end", [b"data: [DONE]\n\n", b"data:[DONE]\n\n", b"data: [DONE]\n", b"data: [DONE]", b"data: [DONE]\r\r"]
)
def test_end_marks(end: bytes) -> None:
    shown, stream = fed(token("x", model="ours") + end, [])
    assert stream.done
    assert shown.endswith(b"[DONE]\n\n")
    assert not stream.surplus


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_stream_without_an_end_mark_is_whole_once_every_sequence_has_ended(ended: int) -> None:
    stream = EventStream("m", usage=False, sequences=2)
    stream.feed(token("x", model="m"))
    for index in range(ended):
        stream.feed(event(model="m", choices=[{"index": index, "delta": {}, "finish_reason": "stop"}], usage=USAGE))
    assert stream.close() == (DONE if ended == 2 else b"")
    assert stream.done == (ended == 2)


def test_half_an_event_after_its_end_is_no_whole_stream() -> None:
    stream = EventStream("m", usage=False)
    stream.feed(event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]) + b'data: {"cho')
    assert stream.close() == b""


def test_what_follows_the_end_mark_is_noticed() -> None:
    assert fed(DONE + token("x"), [])[1].surplus
    assert fed(DONE + b"x", [])[1].surplus


@pytest.mark.parametrize(
    ("data", "from_upstream"),
    [
        (b'data: {"error":{"message":"out of memory"}}\n\n', True),
        (b'event: error\ndata: {"object":"error","error":{"code":1}}\n\n', True),
        (b'data: {"usage":{\n\n', False),
        (b'data: ["usage"]\n\n', False),
        (b"data: " + b"x" * MAX_EVENT_BYTES, False),
    ],
)
def test_what_is_no_stream(data: bytes, from_upstream: bool) -> None:
    with pytest.raises(BadStream) as caught:
        fed(data, [100_000, 200_000])
    assert caught.value.from_upstream is from_upstream


def test_a_member_in_a_form_of_its_own_is_left_alone() -> None:
    odd = b'data: {"model":"ours","choices":"none","usage":{"prompt_tokens":"many"}}\n\n'
    shown, stream = fed(odd + DONE, [], usage=True)
    assert (shown, counts_of(stream.usage)) == (odd + DONE, None)


@given(st.text(min_size=1), st.text())
def test_a_model_is_renamed_in_its_member_alone(name: str, text: str) -> None:
    answer = {"model": name, "text": text, "parts": ["model", {"model": None}]}
    for separators in ((",", ":"), (", ", ": ")):
        shown = json.loads(ModelName("ours").shown(json.dumps(answer, separators=separators).encode()))
        assert shown == answer | {"model": "ours"}
