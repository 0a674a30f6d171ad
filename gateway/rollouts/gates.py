"""The gates of a rollout's plan, by their names: a smoke test, a golden set, a shadow."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from gateway.rollouts.golden.golden_jobs import LOOK_SECONDS, GoldenJob, GoldenJobs
from gateway.rollouts.shadow.shadow_gate import judged
from gateway.rollouts.shadow.shadow_sums import ShadowReport, read_report
from gateway.rollouts.warmup.replica_warmer import ReplicaWarmer
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from routing.rollouts.facts import GateResult, Passing, VersionFacts
from routing.rollouts.rollout import Rollout

#: Seconds that a golden set may take.
GOLDEN_SECONDS: Final = 3600.0


class Gates:
    """A `GateRunner`. While the store is away, gates wait."""

    def __init__(self, warmer: ReplicaWarmer, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` never goes back, and does not jump as the store's may."""
        self._warmer = warmer
        self._store = store
        self._clock = clock
        self._golden = GoldenJobs(store)

    async def run(
        self, rollout: Rollout, candidate: VersionFacts, elapsed: float, tell: Callable[[str], None]
    ) -> GateResult:
        """Run the gate that the rollout's phase names."""
        if rollout.phase == "smoke":
            return await self._warmer.smoke(rollout, candidate)
        if rollout.phase == "golden":
            return await self._golden_set(rollout)
        return await self._shadow(rollout, elapsed, tell)

    async def _golden_set(self, rollout: Rollout) -> GateResult:
        """Have a worker run the golden set, and wait for its result."""
        settings = rollout.settings
        corpus = settings.gates.golden
        assert corpus is not None, "a gate that is not configured is passed over"
        job = GoldenJob(
            id=f"{rollout.id}:{rollout.epoch}",
            model=rollout.model,
            stable=rollout.stable,
            candidate=rollout.candidate,
            corpus=corpus,
            similar=settings.shadow.similar,
            alike=settings.gates.alike,
            failed=settings.bounds.error_rate,
            broken=settings.bounds.worse,
        )
        try:
            async with asyncio.timeout(GOLDEN_SECONDS):
                while True:
                    try:
                        result = await self._golden.ask(job)
                    except StoreUnavailable:
                        result = None
                    if result is not None:
                        passing: Passing = "passed" if result.passed else "failed"
                        return GateResult(gate="golden", passing=passing, reason=result.reason)
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            reason = f"no worker has answered the golden set within {GOLDEN_SECONDS:.0f} s"
            return GateResult(gate="golden", passing="inconclusive", reason=reason)

    async def _shadow(self, rollout: Rollout, elapsed: float, tell: Callable[[str], None]) -> GateResult:
        """Wait until there are enough copies, too many of them fail, or it has taken too long."""
        begun = self._clock() - elapsed
        while True:
            try:
                report = await read_report(self._store, rollout.model)
            except StoreUnavailable:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            passing, reason = judged(_of(rollout, report), rollout.settings, self._clock() - begun)
            if passing is not None:
                return GateResult(gate="shadowing", passing=passing, reason=reason)
            tell(reason)
            await asyncio.sleep(LOOK_SECONDS)


def _of(rollout: Rollout, report: ShadowReport | None) -> ShadowReport | None:
    """Return the report if it is of this rollout."""
    return report if report is not None and report.epoch == rollout.epoch else None
