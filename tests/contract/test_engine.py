"""What every `Engine` keeps to, and what the replica server and the gateway rely on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from protos.types import Failure, Finish, FinishReason, KvCreated, Load, Shape, Submit
from replicas.engine import Engine, EngineStep, Launched
from replicas.engines.simulated_start import SimulatedStart
from replicas.fast_start.preparations import COLD
from replicas.fast_start.start_model import StartModel
from replicas.profiles import PROFILES
from tests.harness import engine_of, submit_of
from tests.loops import until
from tests.trt_engines import trt_engine

Make = Callable[[], Engine]


class FakeClock:
    """Time passes only while the engine sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


MODES: dict[str, dict[str, Any]] = {
    "instant": {},
    "paced": {"instant": False, "pace_seconds": 0.01},
    "modelled": {"instant": False},
}


@pytest.fixture(params=[*sorted(MODES), "started", "tensorrt_llm"])
def make(request: pytest.FixtureRequest) -> Make:
    def build() -> Engine:
        if request.param == "tensorrt_llm":
            return trt_engine()
        clock = FakeClock()
        options = {"clock": clock, "sleep": clock.sleep, "max_sequence_tokens": 1000} | MODES.get(request.param, {})
        if request.param == "started":
            times = StartModel(PROFILES["mixtral-8x7b"], Shape(tp=2)).times(COLD)
            return SimulatedStart(engine_of(**options), times, dummy_request=True, sleep=clock.sleep)
        return engine_of(**options)

    return build


class Heard:
    """What an engine said; that each sequence ends once, and says nothing after, is checked as it comes."""

    def __init__(self) -> None:
        self.tokens: dict[tuple[int, int], list[int]] = {}
        self.sizes: dict[tuple[int, int], list[int]] = {}
        self.finishes: dict[tuple[int, int], Finish] = {}
        self.load = Load()
        self.event_ids: list[int] = []
        self.first_event: object = None

    def __call__(self, step: EngineStep) -> None:
        for delta in step.deltas:
            key = (delta.handle, delta.index)
            assert key not in self.finishes
            self.tokens.setdefault(key, []).extend(delta.token_ids)
            self.sizes.setdefault(key, []).append(len(delta.token_ids))
            assert delta.logprobs is None or len(delta.logprobs) == len(delta.token_ids)
            # How much of the prompt was cached comes with the first delta and with no other.
            assert (delta.cached_tokens is not None) == (len(self.sizes[key]) == 1)
        for handle, index, finish in step.finishes:
            assert (handle, index) not in self.finishes
            self.finishes[handle, index] = finish
        for event in step.kv_events:
            self.first_event = self.first_event or event.data
            self.event_ids.append(event.event_id)
        self.load = step.load


@contextlib.asynccontextmanager
async def running(engine: Engine) -> AsyncIterator[Heard]:
    heard = Heard()
    if isinstance(engine, Launched):
        await engine.start(lambda step: None)
    task = asyncio.create_task(engine.run(heard))
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if isinstance(engine, Launched):
            await engine.stop()


def check_nothing_is_left(heard: Heard) -> None:
    assert (heard.load.running, heard.load.waiting, heard.load.kv_blocks_used, heard.load.tokens_in_flight) == (0,) * 4
    assert heard.event_ids == list(range(heard.event_ids[0], heard.event_ids[0] + len(heard.event_ids)))
    assert isinstance(heard.first_event, KvCreated)


@pytest.mark.parametrize("interval", [0, 1, 7])
async def test_each_sequence_gets_its_tokens_and_one_finish(make: Make, interval: int) -> None:
    requests = [submit_of(20 + i, prompt=range(1, 10 + i), n=1 + i % 3, delta_interval=interval) for i in range(6)]

    engine = make()
    async with running(engine) as heard:
        for handle, request in enumerate(requests):
            engine.submit(handle, request)
        expected = {(h, k) for h, r in enumerate(requests) for k in range(r.sampling.n)}
        await until(lambda: len(heard.finishes) == len(expected))
        assert set(heard.finishes) == expected
        for (handle, _), finish in heard.finishes.items():
            assert finish.reason is FinishReason.LENGTH
            assert finish.failure is None
            assert finish.prompt_tokens == len(requests[handle].prompt_ids)
            assert finish.completion_tokens == requests[handle].max_tokens
        for (handle, index), tokens in heard.tokens.items():
            count = requests[handle].max_tokens
            assert len(tokens) == count
            whole = {0: [count], 1: [1] * count, 7: [7] * (count // 7) + [count % 7] * bool(count % 7)}
            assert heard.sizes[handle, index] == whole[interval]
        check_nothing_is_left(heard)


async def test_a_token_depends_only_on_the_prompt_the_seed_and_its_position(make: Make) -> None:
    engine = make()
    async with running(engine) as heard:
        engine.submit(1, submit_of(30))
        engine.submit(2, submit_of(30, delta_interval=4))
        engine.submit(3, submit_of(30, seed=8))
        await until(lambda: len(heard.finishes) == 3)
        first = heard.tokens[1, 0]
        assert heard.tokens[2, 0] == first
        assert heard.tokens[3, 0] != first
        engine.submit(4, submit_of(20, prompt=[1, 2, 3, *first[:10]], generated=10))
        await until(lambda: len(heard.finishes) == 4)
        assert heard.tokens[4, 0] == first[10:]


@pytest.mark.parametrize("sequences", [1, 3])
@pytest.mark.parametrize("after_tokens", [False, True])
async def test_a_cancelled_request_ends_and_frees_its_blocks(make: Make, sequences: int, after_tokens: bool) -> None:
    engine = make()
    async with running(engine) as heard:
        engine.submit(1, submit_of(900, n=sequences))
        if after_tokens:
            await until(lambda: (1, 0) in heard.tokens)
        engine.cancel(1)
        engine.cancel(1)
        engine.cancel(77)
        await until(lambda: len(heard.finishes) == sequences)
        assert {finish.reason for finish in heard.finishes.values()} == {FinishReason.CANCELLED}
        engine.submit(2, submit_of(3))
        await until(lambda: (2, 0) in heard.finishes)
        assert len(heard.finishes) == sequences + 1
        check_nothing_is_left(heard)


async def test_cancelling_what_has_finished_changes_nothing(make: Make) -> None:
    engine = make()
    async with running(engine) as heard:
        engine.submit(1, submit_of(3))
        await until(lambda: heard.finishes)
        engine.cancel(1)
        engine.submit(2, submit_of(3))
        await until(lambda: len(heard.finishes) == 2)
        assert heard.finishes[1, 0].reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("request_", "code", "param"),
    [
        (submit_of(prompt=range(1000)), "context_length_exceeded", None),
        (submit_of(0), "unsupported_parameter", "max_tokens"),
        (submit_of(logprobs=10_000), "unsupported_parameter", "top_logprobs"),
        (submit_of(prompt=()), "unsupported_parameter", "prompt"),
    ],
)
async def test_a_refusal_is_a_finish_and_never_an_exception(
    make: Make, request_: Submit, code: str, param: str | None
) -> None:
    engine = make()
    async with running(engine) as heard:
        engine.submit(1, request_)
        await until(lambda: heard.finishes)
        finish = heard.finishes[1, 0]
        assert finish.reason is FinishReason.ERROR
        assert isinstance(finish.failure, Failure)
        assert (finish.failure.code, finish.failure.param) == (code, param)
        engine.submit(2, submit_of(3))
        await until(lambda: len(heard.finishes) == 2)
        assert heard.tokens.keys() == {(2, 0)}


async def test_an_answer_stops_where_the_context_ends(make: Make) -> None:
    engine = make()
    async with running(engine) as heard:
        engine.submit(1, submit_of(5000, prompt=range(990)))
        await until(lambda: heard.finishes)
        assert heard.finishes[1, 0].reason is FinishReason.LENGTH
        assert len(heard.tokens[1, 0]) == engine.info.max_sequence_tokens - 990


async def test_a_repeated_prompt_is_found_in_the_cache(make: Make) -> None:
    engine = make()
    async with running(engine) as heard:
        for handle in (1, 2):
            engine.submit(handle, submit_of(2, prompt=range(300)))
            await until(lambda: (handle, 0) in heard.finishes)  # noqa: B023
        assert heard.finishes[1, 0].cached_tokens == 0
        assert 0 < heard.finishes[2, 0].cached_tokens < 300
