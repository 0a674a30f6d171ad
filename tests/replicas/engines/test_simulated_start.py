"""A simulated start: its steps take the modelled time, and its dummy request leaves nothing behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from protos.launch_step import LaunchStep
from protos.types import FinishReason, KvCreated, Shape
from replicas.engine import EngineStep, Launched
from replicas.engines.simulated import SimulatedEngine
from replicas.engines.simulated_start import SimulatedStart, StartFailed
from replicas.fast_start.preparations import ALL, COLD, Preparation
from replicas.fast_start.start_model import StartModel, StartTimes
from replicas.profiles import PROFILES
from tests.harness import CORPUS, submit_of
from tests.loops import until

STEPS = [LaunchStep.ALLOCATE, LaunchStep.PROCESS, LaunchStep.LOAD, LaunchStep.WARM_UP]


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def engine_with(clock: Clock, speed: float) -> SimulatedEngine:
    return SimulatedEngine(
        model="mixtral-8x7b",
        corpus=CORPUS,
        shape=Shape(tp=4),
        speed=speed,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )


async def steps_of(prepared: Preparation, speed: float = 1.0) -> tuple[list[tuple[LaunchStep, float]], float]:
    """The steps with the times at which they began, and when all was ready."""
    clock = Clock()
    told: list[tuple[LaunchStep, float]] = []
    times = StartModel(PROFILES["mixtral-8x7b"], Shape(tp=4)).times(prepared)
    engine = SimulatedStart(
        engine_with(clock, speed), times, dummy_request=prepared.dummy_request, speed=speed, sleep=clock.sleep
    )
    assert isinstance(engine, Launched)
    await engine.start(lambda step: told.append((step, clock.now)))
    return told, clock.now


@pytest.mark.parametrize("prepared", [COLD, ALL, Preparation(kv_sizes=True)])
async def test_the_steps_take_as_long_as_the_model_says(prepared: Preparation) -> None:
    times = StartModel(PROFILES["mixtral-8x7b"], Shape(tp=4)).times(prepared)
    told, ready = await steps_of(prepared)
    assert [step for step, _ in told] == STEPS
    began = [at for _, at in told]
    assert began == pytest.approx(
        [0, times.allocate, times.allocate + times.process, times.allocate + times.process + times.load]
    )
    # The dummy request is answered by the engine itself, whose prompt is shorter than the model's.
    assert ready == pytest.approx(times.ready, abs=0.01)


async def test_speed_divides_the_times() -> None:
    _, slow = await steps_of(ALL)
    _, fast = await steps_of(ALL, speed=10.0)
    assert fast == pytest.approx(slow / 10, rel=0.01)


async def test_after_the_dummy_request_events_and_load_are_those_of_a_new_engine() -> None:
    clock = Clock()
    times = StartTimes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    engine = SimulatedStart(engine_with(clock, 1.0), times, dummy_request=True, sleep=clock.sleep)
    await engine.start(lambda step: None)
    steps: list[EngineStep] = []
    running = asyncio.create_task(engine.run(steps.append))
    engine.submit(1, submit_of(2, prompt=range(40)))
    await until(lambda: any(step.finishes for step in steps))
    running.cancel()
    events = [event for step in steps for event in step.kv_events]
    assert isinstance(events[0].data, KvCreated)
    assert [event.event_id for event in events] == list(range(len(events)))
    assert {handle for step in steps for handle, _, _ in step.finishes} == {1}
    assert {delta.handle for step in steps for delta in step.deltas} <= {1}
    assert (steps[0].load.running, steps[0].load.waiting, steps[0].load.kv_blocks_used) == (0, 0, 0)
    await engine.stop()


class Broken(SimulatedEngine):
    async def _run(self, emit: Callable[[EngineStep], None]) -> None:
        raise RuntimeError("no GPU")


class Silent(SimulatedEngine):
    def submit(self, handle: int, request: Any) -> None:
        self._end(handle, request, FinishReason.ERROR)
        self._wake.set()


@pytest.mark.parametrize("kind", [Broken, Silent])
async def test_a_dummy_request_without_an_answer_is_no_start(kind: type[SimulatedEngine]) -> None:
    clock = Clock()
    engine = kind(model="mixtral-8x7b", corpus=CORPUS, instant=True)
    start = SimulatedStart(engine, StartTimes(*[0.0] * 6), dummy_request=True, sleep=clock.sleep)
    with pytest.raises(StartFailed):
        await start.start(lambda step: None)
