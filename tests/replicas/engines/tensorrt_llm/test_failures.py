"""One request's error is its own; the executor's is everybody's, and found out even if nobody is told."""

import asyncio
from unittest import mock

import pytest

from protos.types import Adapter, FinishReason, Guide, GuideKind
from replicas.engines.tensorrt_llm.liveness import EngineLost, watch
from tests.fake_tensorrt_llm.llm import LLM, CppExecutorError
from tests.fake_tensorrt_llm.results import RequestOutput
from tests.harness import submit_of
from tests.loops import until
from tests.trt_engines import started, trt_engine


async def test_an_error_of_one_request_fails_that_one() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, task):
        llm.held = True
        engine.submit(1, submit_of(5))
        engine.submit(2, submit_of(5))
        llm.response_errors = ["out of blocks"]  # as a response
        llm.executor.step()
        await until(lambda: (1, 0) in heard.finishes)
        llm.held, llm.refusals = False, ["bad words"]  # as an exception of the call
        engine.submit(3, submit_of(5))
        llm.executor.kick()
        await until(lambda: len(heard.finishes) == 3)
        failures = {handle: finish.failure for (handle, _), finish in heard.finishes.items()}
        assert failures[2] is None
        for handle in (1, 3):
            assert failures[handle] is not None
            assert failures[handle].code == "engine_error"  # type: ignore[union-attr]
        assert not task.done()


async def test_a_request_whose_output_cannot_be_read_is_aborted() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, task):
        llm.held = True
        engine.submit(1, submit_of(900))
        llm.executor.step()
        await until(lambda: heard.tokens)
        (running,) = llm.executor.active
        running.result._outputs.clear()
        llm.executor.step()
        await until(lambda: heard.finishes and running.cancelled)
        failure = heard.finishes[1, 0].failure
        assert failure is not None
        assert failure.code == "engine_error"
        assert not task.done()


@pytest.mark.parametrize("depth", [995, 100_000])
async def test_a_schema_that_is_nested_too_deeply_is_no_end_of_the_engine(depth: int) -> None:
    engine = trt_engine(guided_backend="xgrammar")
    async with started(engine) as (_, heard, task):
        engine.submit(1, submit_of(5))
        engine.submit(2, submit_of(5, guide=Guide(GuideKind.JSON_SCHEMA, "[" * depth + "]" * depth)))
        await until(lambda: len(heard.finishes) == 2)
        failure = heard.finishes[2, 0].failure
        assert failure is not None
        assert (failure.code, failure.param) == ("unsupported_parameter", "guide")
        assert heard.finishes[1, 0].failure is None
        assert not task.done()


@pytest.mark.parametrize(
    ("error", "code"),
    [(RecursionError("maximum"), "engine_error"), (NotImplementedError("beams"), "unsupported_parameter")],
)
async def test_pythons_own_errors_of_a_call_are_of_that_request(error: Exception, code: str) -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, task):
        with mock.patch.object(llm, "generate_async", side_effect=error):
            engine.submit(1, submit_of(5))
        engine.submit(2, submit_of(5))
        await until(lambda: len(heard.finishes) == 2)
        failure = heard.finishes[1, 0].failure
        assert failure is not None
        assert failure.code == code
        assert heard.finishes[2, 0].failure is None
        assert not task.done()


async def test_an_answer_that_stops_without_an_end_fails() -> None:
    engine = trt_engine()
    async with started(engine) as (_, heard, task):
        with mock.patch.object(RequestOutput, "finished", False):
            engine.submit(1, submit_of(5))
            await until(lambda: heard.finishes)
        failure = heard.finishes[1, 0].failure
        assert failure is not None
        assert failure.code == "engine_error"
        assert engine._accounts.load(0.0).running == 0
        assert not task.done()


async def test_a_dead_executor_is_heard_from_one_stream_and_ends_the_engine() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, task):
        llm.held = True
        for handle in range(1, 6):
            engine.submit(handle, submit_of(900))
        llm.executor.step()
        await until(lambda: len(heard.tokens) == 5)
        llm.die()
        llm.executor.step()
        with pytest.raises(EngineLost) as caught:
            await task
        assert isinstance(caught.value.__cause__, CppExecutorError)
        assert not heard.finishes


async def test_an_executor_that_is_shut_down_without_a_word_is_noticed() -> None:
    engine = trt_engine(sleep=lambda _: asyncio.sleep(0))
    async with started(engine) as (llm, heard, task):
        engine.submit(1, submit_of(900))
        await until(lambda: heard.tokens)
        llm.executor.shutdown()
        with pytest.raises(EngineLost):
            await task


async def test_a_request_to_an_executor_that_has_shut_down_ends_the_engine() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, _, task):
        llm.executor.shutdown()
        engine.submit(1, submit_of(5))
        with pytest.raises(EngineLost):
            await task


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def test_a_wedged_engine_is_found_by_a_request_of_one_token() -> None:
    clock = Clock()
    engine = trt_engine(clock=clock, sleep=clock.sleep)
    async with started(engine) as (llm, _, task):
        llm.wedged = True
        with pytest.raises(EngineLost):
            await task
        assert 90 <= clock.now <= 93  # 30 s of silence, and 60 s for the answer
        assert [len(call["inputs"]) for call in llm.calls] == [2, 2]


async def test_an_idle_engine_that_answers_its_probes_lives() -> None:
    clock = Clock()
    engine = trt_engine(clock=clock, sleep=clock.sleep)
    async with started(engine) as (llm, _, task):
        await until(lambda: clock.now > 300)
        assert not task.done()
        assert len(llm.calls) >= 5


async def test_a_busy_engine_is_not_probed() -> None:
    clock, probes = Clock(), []

    async def probe() -> None:
        probes.append(clock.now)

    task = asyncio.ensure_future(
        watch(
            probe=probe,
            heard_at=lambda: clock.now - 1,
            shut_down=lambda: clock.now > 200,
            quiet_seconds=30,
            timeout_seconds=60,
            clock=clock,
            sleep=clock.sleep,
        )
    )
    with pytest.raises(EngineLost):
        await task
    assert not probes


@pytest.mark.parametrize(
    ("options", "request_", "code", "param"),
    [
        ({}, submit_of(prompt=range(1000)), "context_length_exceeded", None),
        (
            {"chunked_prefill": False, "max_num_tokens": 64, "max_batch_size": 8},
            submit_of(prompt=range(65)),
            "context_length_exceeded",
            None,
        ),
        ({}, submit_of(guide=Guide(GuideKind.JSON_OBJECT)), "unsupported_parameter", "guide"),
        ({}, submit_of(adapter=Adapter("a", "/tmp")), "unsupported_parameter", "model"),
        ({}, submit_of(logit_bias={5: 1.0}), "unsupported_parameter", "logit_bias"),
        ({"vocab_size": 10}, submit_of(logit_bias={11: 1.0}), "unsupported_parameter", "logit_bias"),
        ({}, submit_of(prefill_only=True), "unsupported_parameter", "prefill_only"),
        (
            {"guided_backend": "xgrammar"},
            submit_of(guide=Guide(GuideKind.JSON_SCHEMA, "{no json")),
            "unsupported_parameter",
            "guide",
        ),
    ],
)
async def test_what_cannot_run_is_refused(options: dict[str, object], request_: object, code: str, param: str) -> None:
    engine = trt_engine(**options)
    async with started(engine) as (_, heard, _task):
        engine.submit(1, request_)  # type: ignore[arg-type]
        await until(lambda: heard.finishes)
        finish = heard.finishes[1, 0]
        assert finish.reason is FinishReason.ERROR
        assert finish.failure is not None
        assert (finish.failure.code, finish.failure.param) == (code, param)


async def test_the_librarys_own_refusal_of_a_long_prompt_is_told_as_such() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        llm.refusals = ["The sum of prompt length (9000) should not exceed max_num_tokens (8192)"]
        engine.submit(1, submit_of(5))
        await until(lambda: heard.finishes)
        failure = heard.finishes[1, 0].failure
        assert failure is not None
        assert failure.code == "context_length_exceeded"


async def test_nothing_is_kept_of_requests_that_are_over() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        for handle in range(300):
            kind = handle % 6
            if kind == 0:
                llm.refusals = ["bad words"]
            if kind == 1:
                llm.response_errors = ["out of blocks"]
            engine.submit(handle, submit_of(3 + handle % 7, n=1 + (kind == 5), prompt=range(1000 * (kind == 4), 1040)))
            if kind == 2:
                engine.cancel(handle)
            elif kind == 3:
                await until(lambda: len(llm.executor.active) == 0)
                engine.cancel(handle)
        await until(lambda: len(heard.finishes) >= 350 and not engine._tasks)
        assert len(heard.finishes) == 350
        assert not engine._groups
        assert (engine._accounts._open, engine._accounts._tokens, engine._accounts._reserved) == (0, 0, 0)
        assert (engine._accounts._prefill, engine._accounts._pairs, engine._accounts._started) == (0, 0, 0)
        assert not llm.executor.active


async def test_stopping_shuts_the_library_down_once() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, _, _task):
        pass
    await engine.stop()
    assert llm.shutdowns == 1


async def test_a_warm_up_that_is_not_answered_is_no_start() -> None:
    engine = trt_engine(warmup_seconds=0.05)
    original = LLM.__init__

    def wedged(self: LLM, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)  # type: ignore[arg-type]
        self.wedged = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LLM, "__init__", wedged)
        with pytest.raises(TimeoutError):
            await engine.start(lambda step: None)
    await engine.stop()
