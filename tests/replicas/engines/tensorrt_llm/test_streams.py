"""What is said of the library's cumulative outputs: each token once, however they come."""

from types import SimpleNamespace
from typing import Any

import pytest

from protos.types import FinishReason
from replicas.engines.tensorrt_llm.trtllm_sequence import NO_LOGPROB, Sequence
from tests.fake_tensorrt_llm.results import CompletionOutput, Logprob
from tests.harness import submit_of
from tests.loops import until
from tests.trt_engines import END, started, trt_engine


def sequence_of(most: int = 100, **submit: Any) -> tuple[Sequence, Any]:
    """A sequence over a result that a test changes by hand."""
    result = SimpleNamespace(outputs=[CompletionOutput(0)], finished=False, cached_tokens=0)
    sequence = Sequence(1, 0, submit_of(**submit), most, frozenset({END, 77}))
    sequence.result = result
    return sequence, result


def test_cumulative_tokens_are_said_once() -> None:
    sequence, result = sequence_of()
    output = result.outputs[0]
    said = []
    for new in ([5], [6, 7], [], [8]):
        output.token_ids.extend(new)
        delta = sequence.delta()
        said.append(delta.token_ids if delta else [])
    assert said == [[5], [6, 7], [], [8]]


def test_a_stop_token_that_was_there_before_it_was_taken_off_is_never_said() -> None:
    sequence, result = sequence_of()
    output = result.outputs[0]
    output.token_ids = [5, 6, 77]
    delta = sequence.delta()
    assert delta is not None
    assert delta.token_ids == [5, 6]
    output.token_ids, output.finish_reason, result.finished = [5, 6], "stop", True
    assert sequence.delta() is None
    finish = sequence.finish()
    assert (finish.reason, finish.completion_tokens) == (FinishReason.STOP, 2)


def test_a_truncation_behind_what_was_said_takes_nothing_back_and_breaks_nothing() -> None:
    sequence, result = sequence_of()
    output = result.outputs[0]
    output.token_ids = [5, 6, 7]
    assert sequence.delta() is not None
    output.token_ids, output.finish_reason, result.finished = [5], "stop", True
    assert sequence.delta() is None
    assert sequence.finish().completion_tokens == 3


def test_a_stop_token_that_did_not_stop_it_is_said_with_the_next_one() -> None:
    sequence, result = sequence_of()
    output = result.outputs[0]
    output.token_ids = [5, 77]
    assert sequence.delta().token_ids == [5]  # type: ignore[union-attr]
    output.token_ids = [5, 77, 8]
    assert sequence.delta().token_ids == [77, 8]  # type: ignore[union-attr]


def test_an_answer_that_is_cut_at_its_length_keeps_its_last_token_whatever_it_is() -> None:
    sequence, result = sequence_of()
    result.outputs[0].token_ids = [5, END]
    result.outputs[0].finish_reason, result.finished = "length", True
    assert sequence.delta().token_ids == [5, END]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "tokens", "reason", "failed"),
    [
        ("stop", 1, FinishReason.STOP, False),
        ("length", 1, FinishReason.LENGTH, False),
        ("timeout", 1, FinishReason.ERROR, True),
        ("cancelled", 1, FinishReason.ERROR, True),
        ("not_finished", 1, FinishReason.ERROR, True),
        (None, 1, FinishReason.STOP, False),
        (None, 100, FinishReason.LENGTH, False),
    ],
)
def test_how_an_end_is_told(said: str | None, tokens: int, reason: FinishReason, failed: bool) -> None:
    sequence, result = sequence_of()
    result.outputs[0].token_ids = [5] * tokens
    result.outputs[0].finish_reason, result.finished = said, True
    finish = sequence.finish()
    assert (finish.reason, finish.failure is not None) == (reason, failed)


def test_logprobs_are_of_the_chosen_token_and_the_best_so_many() -> None:
    sequence, result = sequence_of(logprobs=2)
    output = result.outputs[0]
    output.token_ids = [5, 6, 7]
    output.logprobs = [
        {9: Logprob(-0.1, 1), 8: Logprob(-0.2, 2), 5: Logprob(-3.0, 7)},
        {6: Logprob(-0.1, 1), 8: Logprob(float("-inf"), 2)},
    ]
    delta = sequence.delta()
    assert delta is not None
    assert delta.token_ids == [5, 6]  # the third token's is not there yet
    assert delta.logprobs is not None
    assert [(each.chosen, each.top) for each in delta.logprobs] == [
        (-3.0, ((9, -0.1), (8, -0.2))),
        (-0.1, ((6, -0.1), (8, NO_LOGPROB))),
    ]
    output.finish_reason, result.finished = "length", True
    last = sequence.delta()
    assert last is not None
    assert last.logprobs is not None
    assert last.logprobs[0].chosen == NO_LOGPROB  # and never comes


def test_plain_numbers_are_logprobs_too() -> None:
    sequence, result = sequence_of(logprobs=0)
    result.outputs[0].token_ids, result.outputs[0].logprobs = [5], [-0.5]
    delta = sequence.delta()
    assert delta is not None
    assert delta.logprobs is not None
    assert (delta.logprobs[0].chosen, delta.logprobs[0].top) == (-0.5, ())


async def test_an_end_token_is_no_part_of_an_answer() -> None:
    engine = trt_engine(end_ids=(END, 88))

    async with started(engine) as (llm, heard, _):
        for handle, token in enumerate((END, 88, 99), start=1):
            llm.script = {3: token}
            request = submit_of(20, ignore_eos=False, prompt=[handle, 4], stop_token_ids=(99,))
            engine.submit(handle, request)
            await until(lambda: (handle, 0) in heard.finishes)  # noqa: B023
            finish = heard.finishes[handle, 0]
            assert (finish.reason, finish.completion_tokens) == (FinishReason.STOP, 3)
            assert token not in heard.tokens[handle, 0]
        llm.script = {3: END}
        engine.submit(9, submit_of(8))  # ignores it
        await until(lambda: (9, 0) in heard.finishes)
        assert heard.tokens[9, 0][3] == END
        assert len(heard.tokens[9, 0]) == 8


async def test_several_greedy_answers_are_requests_of_their_own() -> None:
    """The library refuses n > 1 without sampling, says why only of the last to end, and its `_diff` fields lag."""

    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(6, n=3, temperature=0.0))
        await until(lambda: len(heard.finishes) == 3)
        assert {finish.reason for finish in heard.finishes.values()} == {FinishReason.LENGTH}
        assert heard.tokens[1, 0] == heard.tokens[1, 1] == heard.tokens[1, 2]
        engine.submit(2, submit_of(6, n=2))
        await until(lambda: len(heard.finishes) == 5)
        assert heard.tokens[2, 0] != heard.tokens[2, 1]
        sampling = [call["sampling"] for call in llm.calls[1:]]
        assert [(each.n, each.best_of) for each in sampling] == [(1, 1)] * 5
        assert [each.seed for each in sampling[3:]] == [7, 8]  # as the library counts for its own sequences


async def test_timing_is_the_librarys_own() -> None:
    engine = trt_engine()
    async with started(engine) as (_, heard, _task):
        engine.submit(1, submit_of(5))
        await until(lambda: heard.finishes)
        timing = heard.finishes[1, 0].timing
        assert timing.queue_us == 1000
        assert timing.prefill_us > 0
        assert timing.decode_us == 1000


async def test_a_gathered_answer_says_first_that_its_prompt_is_computed() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        llm.held = True
        engine.submit(1, submit_of(5, delta_interval=0))
        llm.executor.step()
        await until(lambda: heard.started)
        assert heard.started == [(1, 0)]
        assert not heard.tokens
        llm.held = False
        llm.executor.kick()
        await until(lambda: heard.finishes)
        assert len(heard.tokens[1, 0]) == 5
        assert heard.started == [(1, 0)]
