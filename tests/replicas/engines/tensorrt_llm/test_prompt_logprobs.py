"""Logprobs of prompts: from logits, of every token, whatever the cache has."""

import math
from typing import Any

import pytest

from protos.features import Feature
from protos.types import Sampling, Submit
from replicas.engines.tensorrt_llm.prompt_logprobs import prompt_logprobs
from tests.fake_tensorrt_llm.logits import VOCABULARY, Logits
from tests.loops import until
from tests.trt_engines import started, trt_engine

PROMPT = [7, 8, 10, 500] * 100
#: The logarithm of what all tokens together weigh after any token.
WHOLE = math.log(math.exp(5.0) + math.exp(6.0) + VOCABULARY - 2)


def asked(alternatives: int = 1, **fields: Any) -> Submit:
    sampling = Sampling(temperature=0.0, seed=1, logprobs=alternatives, prompt_logprobs=True)
    return Submit("scored", PROMPT, 1, sampling, **fields)


async def test_each_token_after_the_first_has_its_own_and_the_best() -> None:
    engine = trt_engine()
    assert Feature.PROMPT_LOGPROBS in engine.info.features
    async with started(engine) as (llm, heard, _):
        engine.submit(1, asked(alternatives=2))
        await until(lambda: (1, 0) in heard.finishes)
        scores = heard.finishes[1, 0].prompt_logprobs
        assert len(scores) == len(PROMPT) - 1
        assert [score.chosen for score in scores[:4]] == pytest.approx([5 - WHOLE, 6 - WHOLE, -WHOLE, -WHOLE])
        assert [token for token, _ in scores[0].top] == [9, 8]
        assert [value for _, value in scores[0].top] == pytest.approx([6 - WHOLE, 5 - WHOLE])
        assert llm.calls[-1]["sampling"].return_context_logits


async def test_what_the_cache_has_of_the_prompt_is_computed_again() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        engine.submit(1, Submit("before", PROMPT, 1, Sampling(temperature=0.0), cache_salt="tenant"))
        await until(lambda: (1, 0) in heard.finishes)
        for handle in (2, 3):
            engine.submit(handle, asked(cache_salt="tenant"))
        await until(lambda: {(2, 0), (3, 0)} <= heard.finishes.keys())
        assert [len(heard.finishes[handle, 0].prompt_logprobs) for handle in (2, 3)] == [len(PROMPT) - 1] * 2
        engine.submit(4, Submit("after", PROMPT, 1, Sampling(temperature=0.0), cache_salt="tenant"))
        await until(lambda: (4, 0) in heard.finishes)
        assert heard.finishes[4, 0].cached_tokens > 0
        assert not llm.calls[-1]["sampling"].return_context_logits


async def test_a_prompt_whose_logits_are_too_large_is_refused() -> None:
    engine = trt_engine(max_sequence_tokens=4000, vocab_size=200_000)
    async with started(engine) as (_, heard, _task):
        engine.submit(1, Submit("long", [5] * 3000, 1, Sampling(logprobs=0, prompt_logprobs=True)))
        await until(lambda: (1, 0) in heard.finishes)
        failure = heard.finishes[1, 0].failure
        assert failure is not None
        assert (failure.code, failure.param) == ("unsupported_parameter", "prompt")


class Unreadable(Logits):
    def float(self) -> Logits:
        raise RuntimeError("out of memory")


async def test_logits_that_cannot_be_read_cost_their_request_its_scores_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Logits, "after", Unreadable.after)
    engine = trt_engine()
    async with started(engine) as (_, heard, task):
        engine.submit(1, asked())
        await until(lambda: (1, 0) in heard.finishes)
        assert heard.finishes[1, 0].failure is None
        assert heard.finishes[1, 0].prompt_logprobs == ()
        assert not task.done()


def test_missing_logits_give_nothing() -> None:
    assert prompt_logprobs(None, [1, 2, 3], 1) == ()
    assert prompt_logprobs(Logits.after([2, 3])[1:], [1, 2, 3], 1) == ()
    assert prompt_logprobs(Logits.after([1]), [1], 1) == ()
    assert [score.top for score in prompt_logprobs(Logits.after([1, 2, 3]), [1, 2, 3], 0)] == [(), ()]
