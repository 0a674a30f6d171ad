"""Errands of rollouts: warm-ups and gates, as tasks whose results the next round finds."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from routing.rollouts.facts import Action, Facts, GateResult, ReplicaFacts, VersionFacts, WarmupResult
from routing.rollouts.rollout import Rollout

log = logging.getLogger(__name__)

#: A rollout, its phase, and the replica, empty for a gate.
_Key = tuple[str, str, str]
#: Warm-ups of a replica until it counts as failed: one may be lost with a worker's or a replica's restart.
ATTEMPTS: Final = 3


def _ignore() -> None:
    """Do nothing."""


class Warmer(Protocol):
    """Sends warm-up requests to replicas."""

    async def warm_up(self, rollout: Rollout, replica: ReplicaFacts) -> WarmupResult:
        """Warm one replica up. It may be cancelled, and repeated."""
        ...


class GateRunner(Protocol):
    """Runs the gates of a plan."""

    async def run(
        self, rollout: Rollout, candidate: VersionFacts, elapsed: float, tell: Callable[[str], None]
    ) -> GateResult:
        """Run the gate that the rollout's phase names, to its end. It may be cancelled, and repeated.

        `elapsed` are the seconds of the phase so far, and `tell` takes what the gate still waits for.
        """
        ...


class Errands:
    """The tasks under way in this process, one for each rollout, and their results."""

    def __init__(self, warmer: Warmer, gates: GateRunner) -> None:
        self._warmer, self._gates = warmer, gates
        self._tasks: dict[_Key, asyncio.Task[WarmupResult | GateResult]] = {}
        self._failed: dict[_Key, int] = {}
        #: Why each gate that runs has not ended yet.
        self._waits: dict[_Key, str] = {}
        #: Called when a result is there.
        self.changed: Callable[[], None] = _ignore

    def waits(self, rollout: Rollout) -> str:
        """Return what the gate of a rollout's phase still waits for; empty: nothing is known."""
        return self._waits.get((rollout.id, rollout.phase, ""), "")

    def results(self, rollout: Rollout) -> tuple[dict[str, WarmupResult], GateResult | None]:
        """Return what has come of a rollout's errands in its phase; each result is told once."""
        warmups: dict[str, WarmupResult] = {}
        gate: GateResult | None = None
        for key in [key for key, task in self._tasks.items() if key[0] == rollout.id and task.done()]:
            task = self._tasks.pop(key)
            if task.cancelled() or key[1] != rollout.phase:
                continue
            result = task.result()
            if isinstance(result, GateResult):
                gate = result
            elif result.warmed is not None:
                # The next time it begins anew, however often it has failed before.
                self._failed.pop(key, None)
                warmups[result.replica] = result
            elif self._fails(key):
                warmups[result.replica] = result
        return warmups, gate

    def look(self, rollout: Rollout, actions: Sequence[Action], facts: Facts, now: float) -> None:
        """Begin the warm-ups and gates in `actions`, and cancel those that are not in it any more.

        `now` is by the clock of the rollout's times.
        """
        wanted: Mapping[_Key, Action] = {
            (rollout.id, rollout.phase, action.replica.id if action.replica is not None else ""): action
            for action in actions
        }
        for key, task in self._tasks.items():
            if key[0] == rollout.id and key not in wanted:
                task.cancel()
        for key, action in wanted.items():
            if key not in self._tasks:
                task = self._tasks[key] = asyncio.create_task(self._do(rollout, action, facts, now - rollout.since))
                task.add_done_callback(lambda _: self.changed())

    async def aclose(self) -> None:
        """Abandon all of them."""
        tasks, self._tasks, self._failed, self._waits = list(self._tasks.values()), {}, {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self, rollout: Rollout) -> None:
        """Forget a rollout that has ended."""
        self._failed = {key: count for key, count in self._failed.items() if key[0] != rollout.id}
        self._waits = {key: words for key, words in self._waits.items() if key[0] != rollout.id}

    async def _do(self, rollout: Rollout, action: Action, facts: Facts, elapsed: float) -> WarmupResult | GateResult:
        replica = action.replica
        try:
            if replica is not None:
                return await self._warmer.warm_up(rollout, replica)
            tell = partial(self._waits.__setitem__, (rollout.id, rollout.phase, ""))
            return await self._gates.run(rollout, facts.candidate, elapsed, tell)
        except Exception as error:
            # Any error: a rollout whose errand is a defect waits for ever, and nobody would be told.
            log.exception("%s of %s", action.what, rollout.model)
            problem = f"{type(error).__name__}: {error}"
            if replica is not None:
                return WarmupResult(replica=replica.id, warmed=None, problem=f"warm-up of {replica.id}: {problem}")
            return GateResult(gate=rollout.phase, passing="failed", reason=f"the gate {rollout.phase}: {problem}")

    def _fails(self, key: _Key) -> bool:
        """Count a failed warm-up; returns whether the replica has failed often enough."""
        self._failed[key] = self._failed.get(key, 0) + 1
        return self._failed[key] >= ATTEMPTS
