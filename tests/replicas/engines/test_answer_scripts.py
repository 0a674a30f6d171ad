"""Scripted answers of the simulated engine, alone and with what else a request may ask for."""

from typing import Any

import pytest

from protos.script import Line
from protos.types import FinishReason, Guide, GuideKind, Submit
from replicas.engines.answer_scripts import Script
from replicas.engines.simulated import SimulatedEngine
from tests.harness import answers_of, engine_of, readable_corpus, readable_vocabulary, submit_of, tekken

VOCABULARY = readable_vocabulary()
CALL = '[TOOL_CALLS][{"name": "f", "arguments": {}}]'
LINES = (Line("sunny", CALL), Line("[INST]Hi", "Hello there."), Line("rain", "never"), Line("rain", "nor this"))
OPTIONS: dict[str, Any] = {"corpus": readable_corpus(), "vocabulary": VOCABULARY, "script": LINES}


def prompt(text: str) -> list[int]:
    return VOCABULARY.encode_marked(text)


def ask(text: str, count: int = 100, **options: Any) -> Submit:
    return submit_of(count, prompt=prompt(text), **({"ignore_eos": False} | options))


def test_the_first_line_that_the_prompt_contains_answers() -> None:
    script = Script(LINES, VOCABULARY)
    answer = script.answer(prompt("Is it sunny, or rain?"))
    assert answer == VOCABULARY.encode_marked(CALL)
    assert answer[0] == tekken().tokenizer.specials["[TOOL_CALLS]"]
    assert script.answer(prompt("[INST]Hi")) == VOCABULARY.encode("Hello there.")
    # Words that only look like a control token are none.
    assert script.answer(VOCABULARY.encode("[INST]Hi")) is not None
    assert script.answer(prompt("Hi")) is None
    assert Script((Line("", "all"),), VOCABULARY).answer([5]) == VOCABULARY.encode("all")


async def test_it_goes_with_whatever_else_is_asked_for() -> None:
    said = VOCABULARY.encode_marked(CALL)

    whole, cut, first, second, moved = await answers_of(
        ask("sunny", logprobs=2),
        ask("sunny", 3),
        ask("sunny", n=2),
        submit_of(100, prompt=[*prompt("sunny"), *said[:4]], generated=4, ignore_eos=False),
        **OPTIONS,
    )
    assert whole == first == second == said
    assert (cut, moved) == (said[:3], said[4:])
    longer, stopped, other = await answers_of(
        ask("sunny", 50, ignore_eos=True), ask("sunny", stop_token_ids=(said[2],)), ask("cloudy", 5), **OPTIONS
    )
    assert longer[: len(said)] == said
    assert len(longer) == 50
    assert stopped == said[:2]
    assert other == (await answers_of(ask("cloudy", 5), **(OPTIONS | {"script": ()})))[0]


def test_it_is_handed_over() -> None:
    said = VOCABULARY.encode_marked(CALL)
    (course,), handoff = engine_of(**OPTIONS)._planner.of(ask("sunny", prefill_only=True))
    assert handoff is not None
    assert (course.total, handoff.first_tokens) == (1, (said[0],))
    (course,), _ = engine_of(**OPTIONS)._planner.of(ask("sunny", handoff=handoff))
    assert (course.total, course.reason) == (len(said), FinishReason.STOP)


async def test_a_guide_has_the_answer_only_if_that_keeps_to_it() -> None:
    options = OPTIONS | {"script": (Line("", "no"),)}
    agreed, refused = await answers_of(
        ask("x", guide=Guide(GuideKind.REGEX, "yes|no")), ask("x", guide=Guide(GuideKind.REGEX, "[0-9]")), **options
    )
    assert agreed == VOCABULARY.encode("no")
    assert VOCABULARY.token_bytes(refused[0]).isdigit()


def test_a_script_needs_a_vocabulary() -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        SimulatedEngine(model="m", corpus=readable_corpus(), script=LINES)
