"""Loading engines: at the same time, with their steps told, timed, and ended when the process shall end."""

import asyncio
import time

import pytest

from protos.launch_step import LaunchStep
from replicas.engine import Tell
from replicas.startup import StartWatch, process_began, started


class Loading:
    """An engine whose steps a test lets through."""

    def __init__(self) -> None:
        self.gate = asyncio.Semaphore(0)
        self.cancelled = False

    async def start(self, tell: Tell) -> None:
        try:
            for step in (LaunchStep.LOAD, LaunchStep.WARM_UP):
                tell(step)
                await self.gate.acquire()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def stop(self) -> None:
        raise AssertionError("whoever loads stops")


class Broken(Loading):
    async def start(self, tell: Tell) -> None:
        tell(LaunchStep.LOAD)
        raise RuntimeError("no GPU")


async def test_a_step_is_told_when_the_last_engine_has_begun_it() -> None:
    engines = [Loading(), Loading()]
    told: list[LaunchStep] = []
    task = asyncio.create_task(started(engines, asyncio.Event(), told.append))
    await asyncio.sleep(0.01)
    assert told == [LaunchStep.LOAD]
    engines[0].gate.release()
    engines[0].gate.release()
    await asyncio.sleep(0.01)
    assert told == [LaunchStep.LOAD]
    engines[1].gate.release()
    await asyncio.sleep(0.01)
    assert told == [LaunchStep.LOAD, LaunchStep.WARM_UP]
    engines[1].gate.release()
    assert await task


async def test_engines_that_load_are_cancelled_when_the_process_shall_end() -> None:
    engine, stop = Loading(), asyncio.Event()
    task = asyncio.create_task(started([engine], stop, lambda step: None))
    await asyncio.sleep(0)
    stop.set()
    assert not await task
    assert engine.cancelled


async def test_an_engine_that_cannot_load_ends_the_others() -> None:
    other = Loading()
    with pytest.raises(RuntimeError, match="no GPU"):
        await started([other, Broken()], asyncio.Event(), lambda step: None)
    assert other.cancelled


async def test_nothing_to_load_is_loaded() -> None:
    assert await started([], asyncio.Event(), lambda step: None)


def test_steps_are_timed_from_the_beginning_of_the_process_on() -> None:
    now = 10.0
    told: list[LaunchStep] = []
    watch = StartWatch(8.5, told.append, lambda: now)
    for step, later in ((LaunchStep.LOAD, 4.0), (LaunchStep.WARM_UP, 1.0), (LaunchStep.READY, 0.0)):
        watch.tell(step)
        now += later
    ended = {LaunchStep.PROCESS: 1.5, LaunchStep.LOAD: 4.0, LaunchStep.WARM_UP: 1.0}
    assert watch.seconds == ended | {LaunchStep.READY: 0.0}
    now += 0.5
    assert watch.seconds == ended | {LaunchStep.READY: 0.5}
    assert str(watch) == "6.50 s: process 1.50, load 4.00, warm_up 1.00"
    assert told == [LaunchStep.LOAD, LaunchStep.WARM_UP, LaunchStep.READY]


def test_the_system_tells_when_the_process_began() -> None:
    began = process_began()
    assert began < time.monotonic()
    assert process_began() == pytest.approx(began, abs=0.05)
