import asyncio
from collections.abc import Callable

import msgspec

from gateway.rollouts.errands import ATTEMPTS, Errands
from routing.rollouts.facts import Action, Facts, GateResult, ReplicaFacts, VersionFacts, WarmupResult
from routing.rollouts.rollout import Rollout
from tests.routing.rollouts.test_stages import WARM, begun, version

REPLICA = version(1).replicas[0]
WARM_UP = [Action(what="warm_up", replica=REPLICA)]


class Warmer:
    def __init__(self) -> None:
        self.fails = True

    async def warm_up(self, rollout: Rollout, replica: ReplicaFacts) -> WarmupResult:
        return WarmupResult(replica=replica.id, warmed=None if self.fails else WARM, problem="it failed")

    async def run(
        self, rollout: Rollout, candidate: VersionFacts, elapsed: float, tell: Callable[[str], None]
    ) -> GateResult:
        raise AssertionError("no gate is asked for")


async def test_a_replica_fails_by_warm_ups_in_a_row() -> None:
    """A rollout may last for weeks, in which a replica restarts now and then."""
    warmer = Warmer()
    errands, rollout = Errands(warmer, warmer), msgspec.structs.replace(begun(plan="ab"), phase="testing")

    async def warmed() -> bool | None:
        errands.look(rollout, WARM_UP, Facts(), 0.0)
        await asyncio.gather(*errands._tasks.values())
        result = errands.results(rollout)[0].get(REPLICA.id)
        return None if result is None else result.warmed is not None

    for _ in range(3):
        warmer.fails = True
        assert [await warmed() for _ in range(ATTEMPTS - 1)] == [None] * (ATTEMPTS - 1)
        warmer.fails = False
        assert await warmed()
    warmer.fails = True
    assert [await warmed() for _ in range(ATTEMPTS)] == [None, None, False]
