import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.features import Feature
from protos.types import Adapter, FinishReason, Guide, GuideKind
from replicas.adapter_slots import AdapterSlots
from replicas.engine import EngineStep
from replicas.engines.simulated import SimulatedEngine
from tests.harness import answers_of, engine_of, submit_of
from tests.loops import until


def test_an_adapter_is_loaded_once_and_goes_when_others_are_used() -> None:
    slots = AdapterSlots(2, 1.0)
    assert slots.take("a", 0.0) == 1.0
    assert slots.take("a", 0.5) == 1.0
    assert (slots.loaded(0.5), slots.loaded(1.0)) == ((), ("a",))
    assert slots.take("b", 2.0) == 3.0
    assert slots.take("c", 2.0) is None  # both are in use
    slots.release("a")
    assert slots.take("c", 2.0) is None
    slots.release("a")
    slots.release("b")
    assert slots.take("a", 4.0) == 1.0
    slots.release("a")
    assert slots.take("c", 5.0) == 6.0
    assert slots.loaded(6.0) == ("a", "c")


@given(slots=st.integers(1, 3), steps=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.booleans())))
def test_never_more_than_the_slots_and_none_in_use_goes(slots: int, steps: list[tuple[str, int, bool]]) -> None:
    held, now, using = AdapterSlots(slots, 1.0), 0.0, list[str]()
    for name, wait, gives_back in steps:
        now += wait
        if gives_back and using:
            held.release(using.pop(0))
            continue
        ready = held.take(name, now)
        if ready is None:
            assert len(set(using)) == slots
            assert name not in using
        else:
            assert ready <= now + 1.0
            using.append(name)
        assert len(held.loaded(now + 1.0)) <= slots
        assert set(using) <= set(held.loaded(now + 1.0))


class Heard:
    """Every step of an engine that runs until the test ends."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self.engine = engine
        self.steps: list[EngineStep] = []
        self._task = asyncio.create_task(engine.run(self.steps.append))

    @property
    def finishes(self) -> dict[int, FinishReason]:
        return {handle: finish.reason for step in self.steps for handle, _, finish in step.finishes}

    @property
    def adapters(self) -> list[tuple[str, ...]]:
        return [step.adapters for step in self.steps if step.adapters is not None]

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_an_adapter_answers_differently_and_always_the_same() -> None:
    lora: dict[str, Any] = {"adapters": ("a", "b"), "max_adapters": 2}
    asked = (None, Adapter("a"), Adapter("a"), Adapter("b"))
    plain, with_a, again, with_b = [await answers_of(submit_of(12, adapter=one), **lora) for one in asked]
    assert with_a == again
    assert len({tuple(answer[0]) for answer in (plain, with_a, with_b)}) == 3


async def test_a_request_waits_for_its_adapter_and_others_do_not() -> None:
    clock, slept = [0.0], asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds > 0.5:
            await slept.wait()
            clock[0] += seconds
        await asyncio.sleep(0)

    options: dict[str, Any] = {
        "adapters": ("a",),
        "max_adapters": 1,
        "adapter_load_seconds": 1.0,
        "clock": lambda: clock[0],
    }
    heard = Heard(engine_of(instant=False, pace_seconds=0.001, sleep=sleep, **options))
    heard.engine.submit(1, submit_of(4, adapter=Adapter("a")))
    await asyncio.sleep(0)
    heard.engine.submit(2, submit_of(4))
    await until(lambda: 2 in heard.finishes)
    assert 1 not in heard.finishes
    assert heard.steps[-1].load.waiting == 1
    slept.set()
    await until(lambda: 1 in heard.finishes)
    assert heard.adapters == [("a",)]
    assert heard.steps[-1].load.waiting == 0
    await heard.stop()


async def test_whoever_waits_for_a_slot_can_leave_and_the_next_gets_it() -> None:
    heard = Heard(engine_of(instant=False, pace_seconds=0.001, max_adapters=1, adapter_load_seconds=0.0))
    heard.engine.submit(1, submit_of(10_000, adapter=Adapter("a", "/a")))
    heard.engine.submit(2, submit_of(4, adapter=Adapter("b", "/b")))
    heard.engine.submit(3, submit_of(4, adapter=Adapter("c", "/c")))
    await until(lambda: heard.adapters == [("a",)])
    heard.engine.cancel(2)
    heard.engine.cancel(2)
    await until(lambda: 2 in heard.finishes)
    heard.engine.cancel(1)
    await until(lambda: 3 in heard.finishes)
    cancelled = FinishReason.CANCELLED
    assert heard.finishes == {1: cancelled, 2: cancelled, 3: FinishReason.LENGTH}
    assert heard.adapters[-1] == ("c",)
    await heard.stop()


@pytest.mark.parametrize(
    ("options", "fields", "param"),
    [
        ({}, {"adapter": Adapter("a", "/a")}, "model"),
        ({"max_adapters": 1, "adapters": ("a",)}, {"adapter": Adapter("b")}, "model"),
        ({}, {"guide": Guide(GuideKind.JSON_OBJECT)}, "guide"),
    ],
)
async def test_what_it_cannot_do_is_refused_by_name(
    options: dict[str, Any], fields: dict[str, Any], param: str
) -> None:
    heard = Heard(engine_of(**options))
    heard.engine.submit(1, submit_of(4, **fields))
    await until(lambda: 1 in heard.finishes)
    failure = heard.steps[-1].finishes[0][2].failure
    assert failure is not None
    assert (failure.code, failure.param) == ("unsupported_parameter", param)
    await heard.stop()


def test_it_says_what_it_can() -> None:
    assert not engine_of().info.features & Feature.LORA
    assert not engine_of().info.features & Feature.GUIDED
    able = engine_of(max_adapters=2, adapters=("a",)).info
    assert able.features & Feature.LORA
    assert able.adapters == ("a",)
