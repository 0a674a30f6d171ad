"""A scaler over a long load, with requests as a fluid in steps of a second.

What a replica does at a rate is measured beforehand by the simulator of single requests (calibration.py). Here answers
under way in each pool follow from what comes and what the replicas serve at such a number of them; what exceeds the
replicas waits, first in first out, in the gateway. Randomness of arrivals within seconds is in the calibrated figures;
controllers see the rate as a Poisson count over their window, and as many in flight as vary alike.
"""

import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from loadtest.simulation.scaling.calibration import Calibration, Steady
from loadtest.simulation.scaling.load_lengths import Lengths
from loadtest.simulation.scaling.replica_lives import Life, Lives
from loadtest.simulation.scaling.request_watch import WINDOW_SECONDS
from loadtest.simulation.scaling.scaling_load import ScalingLoad
from loadtest.simulation.scaling.scaling_result import ScalingResult, Served, scaling_result
from loadtest.simulation.scaling.scaling_rounds import Forecaster, ScalingRounds
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from replicas.controller.decision import Scaler
from replicas.controller.snapshot import Demand, PoolSnapshot

#: Share of a stage's answers that may leave it in one step in a steady state; where more would, answers follow the rate
#: at once. The same for any state.
_COUNTED, _MOST_GOING = 0.7, 0.95
_MOST_STAGES = 5


class _Pool:
    """A pool: its ready replicas, and the answers under way in them by how far they have come.

    An answer goes through stages, the more the less lengths vary: with one alone, answers end at random.
    """

    def __init__(self, pool: VirtualPool, calibration: Calibration, stages: int) -> None:
        self.pool, self.calibration = pool, calibration
        self.ready = 0
        self._stages = [0.0] * stages
        self._sums = [0.0]  # of answers under way in each replica, by steps

    def note(self) -> None:
        """Note the state of a step."""
        self._sums.append(self._sums[-1] + (self.answers / self.ready if self.ready else 0.0))

    def share(self, first: int, last: int) -> float:
        """Return the share in time of answers that were under way in these steps."""
        last = min(max(last, first + 1), len(self._sums) - 1)
        if last <= first:
            return self.state.in_time
        return self.calibration.at_answers((self._sums[last] - self._sums[first]) / (last - first)).in_time

    @property
    def answers(self) -> float:
        """Answers under way."""
        return sum(self._stages)

    @property
    def state(self) -> Steady:
        """The state of each replica."""
        return self.calibration.at_answers(self.answers / self.ready if self.ready else 0.0)

    @property
    def seconds(self) -> float:
        """The mean seconds of an answer."""
        state = self.state
        return state.answers / state.rate if state.rate else 0.0

    def room(self, seconds: float, *, late: bool) -> float:
        """Requests that may come in within so many seconds; more where they are late, at the cost of all paces."""
        if not self.ready:
            return 0.0
        most = self.calibration.most if late else self.calibration.paced
        return max(0.0, self.ready * (most.answers + most.rate * seconds) - self.answers)

    def advance(self, arrived: float, seconds: float) -> None:
        """Let requests come, and those end that the replicas serve."""
        if not self.ready:
            return
        stages, answers, steady = self._stages, self.answers, self.state
        if not answers or steady.rate * seconds * len(stages) > _COUNTED * steady.answers:
            each = self.ready * self.calibration.at_rate(arrived / seconds / self.ready).answers / len(stages)
            self._stages = [each] * len(stages)
            return
        served = self.calibration.served(answers / self.ready, arrived / seconds / self.ready) * self.ready
        part = min(_MOST_GOING, served * seconds * len(stages) / answers)
        coming = arrived
        for place, held in enumerate(stages):
            going = held * part
            stages[place] = held + coming - going
            coming = going

    def leave(self) -> float:
        """Take one replica's answers away, and return them."""
        share = self.answers / self.ready
        self._stages = [held * (1 - 1 / self.ready) for held in self._stages]
        self.ready -= 1
        return share


def _stages(lengths: Lengths) -> int:
    """Return the stages whose times together vary as answers' lengths do."""
    outputs, mean = lengths.output_sample(), lengths.output_mean
    variation = sum((output - mean) ** 2 for output in outputs) / len(outputs) / mean**2
    return min(_MOST_STAGES, max(1, round(1 / variation))) if variation else _MOST_STAGES


class _Admitted(NamedTuple):
    """Requests that were admitted in one step: when they came, how many, and where, in shares of them by pool."""

    came: float
    requests: float
    step: int
    until: int
    pools: Sequence[tuple[_Pool, float]]


class FluidRun:
    """One run. Implements the seams of lives and of watching."""

    def __init__(
        self,
        scaler: Scaler,
        pools: Sequence[VirtualPool],
        ready: Sequence[int],
        load: ScalingLoad,
        calibrations: Mapping[str, Calibration],
        *,
        every: float,
        seed: int,
        moves: bool = True,
        forecaster: Forecaster | None = None,
        step: float = 1.0,
    ) -> None:
        self._load = load
        self._step = step
        self._moves = moves
        self._rng = random.Random(seed)
        stages = _stages(load.lengths)
        self._pools = {pool.name: _Pool(pool, calibrations[pool.name], stages) for pool in pools}
        self._prompt, self._output = load.lengths.prompt_mean, load.lengths.output_mean
        self._target = load.slo.first_token(self._prompt)
        self._waiting: deque[list[float]] = deque()  # when they came, and how many
        self._held = 0.0
        self._number = 0  # of the step
        self._running: deque[_Admitted] = deque()
        self._left: dict[str, tuple[float, float]] = {}  # by draining life: its answers, and the seconds that they take
        self.requests = self.met = self.lost = 0.0
        self.bins: dict[int, list[float]] = {}
        self.bin_seconds = max(30.0, load.curve.end / 1000)
        self.lives = Lives(pools, self, seed)
        self.rounds = ScalingRounds(scaler, self.lives, self, every=every, until=load.curve.end, forecaster=forecaster)
        for pool, count in zip(pools, ready, strict=True):
            self.lives.begin(pool, count)

    def run(self) -> None:
        """Play the load to its end."""
        step, end, rate = self._step, self._load.curve.end, self._load.curve.at
        now = 0.0
        while now < end:
            while self.rounds.due <= now:
                self.rounds.hold(now)
            self._advance(rate(now + step / 2) * step, now)
            now += step
        for admitted in self._running:
            self._finish(admitted)
        for came, count in self._waiting:
            self._account(came, count, 0.0)

    def demand(self, now: float) -> Demand:
        """Return what clients want."""
        expected = self._load.curve.at(max(0.0, now - WINDOW_SECONDS / 2)) * WINDOW_SECONDS
        seen = max(0.0, self._rng.gauss(expected, expected**0.5))
        oldest = now - self._waiting[0][0] if self._waiting else 0.0
        states = [pool.state for pool in self._pools.values() if pool.ready]
        running = sum(pool.answers for pool in self._pools.values())
        return Demand(
            window=WINDOW_SECONDS,
            requests_per_second=seen / WINDOW_SECONDS,
            prompt_tokens=self._prompt,
            output_tokens=self._output,
            waiting=round(self._held),
            oldest_wait=oldest,
            in_flight=round(max(0.0, self._rng.gauss(running, running**0.5))),
            ttft_ratio=max((state.ttft_ratio for state in states), default=0.0) + oldest / self._target,
            tpot_ratio=max((state.tpot_ratio for state in states), default=0.0),
        )

    def pool(self, name: str, now: float) -> PoolSnapshot:
        """Return what the engines of a pool report."""
        pool = self._pools[name]
        limits, state = pool.pool.limits, pool.state
        return PoolSnapshot(
            running=round(pool.answers),
            kv_used=state.kv_used if pool.ready else 0.0,
            occupancy=state.occupancy if pool.ready else 0.0,
            kv_tokens=limits.kv_tokens,
            max_sequences=limits.max_batch_size,
            max_step_tokens=limits.max_num_tokens,
            step_times=pool.calibration.steps,
        )

    def ready(self, life: Life, now: float) -> None:
        """Let a replica serve."""
        self._pools[life.pool.name].ready += 1

    def drain(self, life: Life, now: float) -> None:
        """Send a replica nothing more; its answers end within the time of the longest ones."""
        pool = self._pools[life.pool.name]
        seconds = pool.state.p99
        self._left[life.id] = (pool.leave(), seconds)

    def ended(self, life: Life, now: float) -> float | None:
        """Return when a draining replica's answers had ended."""
        end = life.drained + self._left[life.id][1]
        return end if end <= now else None

    def take(self, life: Life, now: float) -> None:
        """Take a replica away; what it still had moves, which is not modelled, or is lost."""
        answers, seconds = self._left.pop(life.id)
        left = max(0.0, 1.0 - (now - life.drained) / seconds) if seconds else 0.0
        if not self._moves:
            self.lost += answers * left
            self.met -= answers * left

    def _advance(self, arrived: float, now: float) -> None:
        """Let requests come and go for a step."""
        late = bool(self._waiting) and now - self._waiting[0][0] > self._target
        pools = [(pool, pool.room(self._step, late=late)) for pool in self._pools.values() if pool.ready]
        room = sum(free for _, free in pools)
        where = [(pool, free / room if room else 0.0) for pool, free in pools]
        if self._held + arrived > room or self._waiting:
            self._waiting.append([now, arrived])
            self._held += arrived
            admitted = self._admit(room, now, where)
        else:
            admitted = arrived
            self._begin(now, arrived, now, where)
        for pool, share in where:
            pool.advance(admitted * share, self._step)
        for pool in self._pools.values():
            pool.note()
        self._number += 1
        while self._running and self._running[0].until <= self._number:
            self._finish(self._running.popleft())

    def _admit(self, room: float, now: float, where: Sequence[tuple[_Pool, float]]) -> float:
        """Admit waiting requests, the oldest first; return how many."""
        waiting, admitted = self._waiting, 0.0
        # A replica's own first tokens at rest: the wait before it is counted here.
        first = min((pool.calibration.points[0].ttft_p99 for pool, _ in where), default=0.0)
        while waiting and admitted < room:
            came, count = waiting[0]
            taken = min(count, room - admitted)
            admitted += taken
            if now - came + first <= self._target:
                self._begin(came, taken, now, where)
            else:
                self._account(came, taken, 0.0)
            if taken < count:
                waiting[0][1] -= taken
            else:
                waiting.popleft()
        self._held = max(0.0, self._held - admitted)
        return admitted

    def _begin(self, came: float, count: float, now: float, where: Sequence[tuple[_Pool, float]]) -> None:
        """Let requests begin that are in time if their answers' pace is."""
        seconds = max((pool.seconds for pool, _ in where), default=0.0)
        steps = max(1, round(seconds / self._step))
        # Kept in the order in which they end, or nearly so.
        self._running.append(_Admitted(came, count, self._number, self._number + steps, where))

    def _finish(self, admitted: _Admitted) -> None:
        share = sum(part * pool.share(admitted.step, admitted.until) for pool, part in admitted.pools)
        self._account(admitted.came, admitted.requests, share)

    def _account(self, came: float, count: float, share: float) -> None:
        self.requests += count
        self.met += count * share
        counts = self.bins.setdefault(int(came / self.bin_seconds), [0.0, 0.0])
        counts[0] += count
        counts[1] += count * share


def run_fluid(
    name: str,
    scaler: Scaler,
    pools: Sequence[VirtualPool],
    ready: Sequence[int],
    load: ScalingLoad,
    needed: float,
    calibrations: Mapping[str, Calibration],
    *,
    every: float = 15.0,
    seed: int = 0,
    moves: bool = True,
    forecaster: Forecaster | None = None,
    step: float = 1.0,
) -> ScalingResult:
    """Run a contender over a load; an oracle has `needed` GPU-hours."""
    began = time.perf_counter()
    run = FluidRun(
        scaler,
        pools,
        ready,
        load,
        calibrations,
        every=every,
        seed=seed,
        moves=moves,
        forecaster=forecaster,
        step=step,
    )
    run.run()
    run.lives.finish(load.curve.end)
    bins = run.bins
    served = Served(
        requests=run.requests,
        in_time=run.met / run.requests if run.requests else 1.0,
        lost=run.lost,
        ttft_p99=None,
        p99=None,
        bin_seconds=run.bin_seconds,
        shares=[
            bins[at][1] / bins[at][0] if at in bins and bins[at][0] else None
            for at in range(1 + int(load.curve.end / run.bin_seconds))
        ],
    )
    return scaling_result(name, served, run.lives, run.rounds, load, needed, time.perf_counter() - began)
