import asyncio
from collections import Counter
from typing import Any, cast

import msgspec

from gateway.rollouts.gates import Gates
from gateway.rollouts.shadow.shadow_sums import add_sums
from routing.rollouts.facts import VersionFacts
from tests.loops import until
from tests.routing.rollouts.test_stages import begun
from tests.stores import running


class Clock:
    now = 7.0

    def __call__(self) -> float:
        return self.now


async def test_a_shadow_lasts_its_time_by_a_clock_that_does_not_jump(store_url: str) -> None:
    """The store's may be hours away from what the rollout's times were written by."""
    rollout = msgspec.structs.replace(begun(plan="shadow"), phase="shadowing", epoch=3)
    async with running(store_url) as store:
        clock, told = Clock(), list[str]()
        await add_sums(store, "m", 3, Counter({"compared": 50, "same": 50, "alike": 50}), [])
        gates = Gates(cast("Any", None), store, clock)
        gate = asyncio.create_task(gates.run(rollout, VersionFacts(), 0.5, told.append))
        await until(lambda: told)
        assert told == ["2 s of 2 s are left"]
        clock.now += 1.5
        result = await gate
        assert (result.gate, result.passing) == ("shadowing", "passed")
