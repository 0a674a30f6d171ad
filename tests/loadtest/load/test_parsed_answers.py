from typing import Any, cast

import msgspec
import pytest

from loadtest.load.parsed_answers import PARSED, AnswerParts, answer_parts, require_parsed_answers
from loadtest.load.processes import BenchError
from loadtest.load.stack import Stack, Variant

TEXT: dict[str, Any] = {"content": "Yes."}
THOUGHT: dict[str, Any] = {"reasoning_content": "Hm."}
CALL: dict[str, Any] = {"tool_calls": [{"index": 0, "function": {"name": "note", "arguments": "{}"}}]}
ANSWERS: dict[Variant, dict[str, Any]] = {"parsed": TEXT, "thinking": {"content": None, **THOUGHT}, "calling": CALL}


def whole(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"choices": [{"message": message, "finish_reason": "length"}]})


def streamed(*deltas: dict[str, Any]) -> bytes:
    events: list[dict[str, Any]] = [{"choices": [{"delta": delta}]} for delta in deltas]
    events.append({"choices": [], "usage": {}})
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events) + b"data: [DONE]\n\n"


class Answering:
    """A stack with an answer for each variant."""

    def __init__(self, answers: dict[Variant, dict[str, Any]]) -> None:
        self.answers = answers
        self.asked: list[tuple[bytes, Variant]] = []

    def ask(self, body: bytes, variant: Variant) -> bytes:
        self.asked.append((body, variant))
        return whole(self.answers[variant])


def check(answering: Answering, *variants: Variant) -> None:
    require_parsed_answers(cast(Stack, answering), {variant: variant.encode() for variant in variants})


def test_what_is_told_is_the_same_however_it_comes() -> None:
    pieces = [{"function": {"name": "note", "arguments": ""}}, {"function": {"arguments": "{}"}}]
    stream = streamed({"content": ""}, THOUGHT, TEXT, *({"tool_calls": [piece]} for piece in pieces), {})
    assert (
        answer_parts(stream) == answer_parts(whole({**TEXT, **THOUGHT, **CALL})) == AnswerParts("Yes.", "Hm.", "note{}")
    )


def test_every_variant_is_asked_once() -> None:
    answering = Answering(ANSWERS)
    check(answering, *PARSED)
    assert answering.asked == [(variant.encode(), variant) for variant in PARSED]


@pytest.mark.parametrize("variant", PARSED)
@pytest.mark.parametrize("more", [TEXT, THOUGHT, CALL, {}])
def test_an_answer_of_another_kind_or_of_several_is_an_error(variant: Variant, more: dict[str, Any]) -> None:
    answer = {**ANSWERS[variant], **more} if more else {}
    if more and more.items() <= ANSWERS[variant].items():
        check(Answering({variant: answer}), variant)
        return
    with pytest.raises(BenchError, match=f"the load '{variant}'"):
        check(Answering({variant: answer}), variant)
