from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from loadtest.load.processes import BenchError
from loadtest.load.same_answers import AnswerText, answer_text, require_same_answers
from loadtest.load.stack import Stack, Variant


def whole(text: str | None, finish_reason: str = "length") -> bytes:
    return msgspec.json.encode({"choices": [{"message": {"content": text}, "finish_reason": finish_reason}]})


def streamed(*pieces: str, finish_reason: str = "length") -> bytes:
    choices: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    choices += [{"delta": {"content": piece}} for piece in pieces]
    choices += [{"delta": {}, "finish_reason": finish_reason}]
    events: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    events.append({"choices": [], "usage": {}})
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events) + b"data: [DONE]\n\n"


@dataclass
class Answering:
    """A stack whose answers are given by variant and body."""

    answers: dict[tuple[Variant, bytes], bytes]
    asked: list[tuple[Variant, bytes]] = field(default_factory=list)

    def ask(self, body: bytes, variant: Variant) -> bytes:
        self.asked.append((variant, body))
        return self.answers[variant, body]


def check(answering: Answering, *bodies: bytes) -> None:
    require_same_answers(cast(Stack, answering), bodies)


def test_what_is_said_is_the_same_however_it_comes() -> None:
    one, other = answer_text(whole("two rivers")), answer_text(streamed("two ", "rivers"))
    assert one == other == AnswerText("two rivers", "length")
    assert answer_text(whole(None, "content_filter")) == AnswerText("", "content_filter")


def test_every_body_is_asked_with_filters_and_without() -> None:
    answering = Answering({(v, b): whole(b.decode()) for v in ("plain", "filtered") for b in (b"1", b"2")})
    check(answering, b"1", b"2")
    assert sorted(answering.asked) == [("filtered", b"1"), ("filtered", b"2"), ("plain", b"1"), ("plain", b"2")]


@pytest.mark.parametrize("found", [whole("[EMAIL]"), whole("ab", "content_filter"), streamed("a")])
def test_an_answer_that_differs_is_an_error(found: bytes) -> None:
    answering = Answering({("plain", b"1"): whole("ab"), ("filtered", b"1"): found})
    with pytest.raises(BenchError, match="filters change what they are measured with"):
        check(answering, b"1")


def test_a_request_without_an_answer_is_an_error() -> None:
    stack = Stack(
        port=9,  # nobody listens there
        keys={"plain": "", "limited": "", "filtered": ""},
        config=Path("penstock.yaml"),
        gateway_pid=10,
        worker_pids=(11,),
        replica_pids=(20,),
        gateway_core=0,
        load_core=1,
    )
    with pytest.raises(BenchError, match="a plain request got no answer"):
        require_same_answers(stack, [b"{}"])
