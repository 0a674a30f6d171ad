"""One rollout in virtual time, with the product's own parts from a request's record on to the split that follows."""

from heapq import heappop, heappush
from random import Random
from typing import Final, Literal

import msgspec

from loadtest.simulation.rollouts.scenario import Scenario
from loadtest.simulation.rollouts.traffic import CANDIDATE, MODEL, REPLICAS, STABLE, Traffic
from observability.record import RequestRecord
from routing.rollouts.facts import Compared, Facts, ReplicaFacts, VersionFacts
from routing.rollouts.judging import bounds_of, compared_of
from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.version_counter import VersionCounter
from routing.rollouts.rollout import SERVING, Rollout
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.settings import Warmup
from routing.rollouts.split import Split
from routing.rollouts.split_of import split_of
from routing.rollouts.stages import advance
from routing.rollouts.verdicts.judge import judge

#: Seconds between two verdicts. A controller looks each second; what it sees is counted by slices of ten.
LOOK_SECONDS: Final = 10
#: Seconds after which measures are put together as the store's are.
_COARSER_SECONDS: Final = 600
#: Any whole minute: records have times of the wall clock.
_BEGIN: Final = 1_800_000_000

End = Literal["rolled_back", "promoted", "waiting"]


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a rollout ended, after so many requests of the candidate and of both, and seconds since it got its first."""

    end: End
    requests: int
    all_requests: int
    seconds: int
    stage: int
    reason: str


class RolloutRun:
    """One run. After `limit` seconds a rollout that is neither promoted nor rolled back is left waiting."""

    def __init__(self, scenario: Scenario, seed: str, *, rate: float, hold: float, limit: int) -> None:
        settings = Settings(
            model=MODEL,
            to=CANDIDATE,
            hold_seconds=hold,
            warmup=Warmup(requests=0),
        )
        self._limit = limit
        self._bounds = bounds_of(settings)
        self._now = _BEGIN
        self._rollout = Rollout(
            id="run",
            model=MODEL,
            stable=STABLE,
            candidate=CANDIDATE,
            configured=STABLE,
            settings=settings,
            actor="bench",
            started=self._now,
            phase="preparing",
            since=self._now,
        )
        self._traffic = Traffic(scenario, Random(seed), rate)
        self._counter = VersionCounter(lambda _: self._split, lambda: self._now)
        self._under_way: list[tuple[float, str, RequestRecord]] = []
        self._answered = {STABLE: 0, CANDIDATE: 0}

    def run(self) -> RunOutcome:
        """Run it to its end."""
        while self._rollout.phase not in SERVING:
            self._advance(None)
        begin = self._now
        while self._now - begin < self._limit:
            for _ in range(LOOK_SECONDS):
                self._second(begin)
            self._advance(self._compared(begin))
            if self._rollout.phase == "rolling_back":
                return self._outcome("rolled_back", begin)
            if self._rollout.promoted:
                return self._outcome("promoted", begin)
        return self._outcome("waiting", begin)

    @property
    def _split(self) -> Split:
        return split_of(self._rollout)

    def _advance(self, compared: Compared | None) -> None:
        stable = VersionFacts(replicas=_replicas(STABLE, REPLICAS))
        # All that a stage may ask for is there: this is about verdicts. `Traffic` uses as many as the stage needs.
        candidate = VersionFacts(replicas=_replicas(CANDIDATE, REPLICAS))
        self._rollout, _ = advance(
            self._rollout, Facts(stable=stable, candidate=candidate, compared=compared), self._now
        )

    def _second(self, begin: int) -> None:
        for record in self._traffic.second(self._now, self._rollout.share, begin):
            record.rollout_epoch = self._rollout.epoch
            heappush(self._under_way, (record.ended, record.id, record))
        self._now += 1
        ended = []
        while self._under_way and self._under_way[0][0] <= self._now:
            record = heappop(self._under_way)[2]
            self._answered[record.version] += 1
            ended.append(record)
        self._counter.take(ended)
        self._counter.settle()
        self._counter.answered.clear()
        self._counter.changed.clear()

    def _compared(self, begin: int) -> Compared | None:
        measures = self._counter.measures
        baseline, candidate = (measures.get(("run", version)) or Measures() for version in (STABLE, CANDIDATE))
        if self._now - begin > _COARSER_SECONDS:
            baseline, candidate = baseline.coarser(self._now), candidate.coarser(self._now)
        verdict = judge(baseline, candidate, self._bounds, self._now - begin)
        return compared_of(verdict, candidate.requests)

    def _outcome(self, end: End, begin: int) -> RunOutcome:
        return RunOutcome(
            end=end,
            requests=self._answered[CANDIDATE],
            all_requests=sum(self._answered.values()),
            seconds=self._now - begin,
            stage=self._rollout.stage,
            reason=self._rollout.reason if end != "waiting" else self._rollout.problem,
        )


def _replicas(version: str, count: int) -> list[ReplicaFacts]:
    return [ReplicaFacts(id=f"{version}-{number}", pool=version, address="", ready=True) for number in range(count)]
