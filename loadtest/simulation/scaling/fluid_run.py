"""A scaler over a long load, with requests as a fluid in steps of a second.

What a replica does at a rate is measured beforehand by the simulator of single requests (calibration.py). Here answers
under way in each pool follow from what comes and what the replicas serve at such a number of them; what exceeds the
replicas waits, first in first out, in the gateway. Randomness of arrivals within seconds is in the calibrated figures;
controllers see the rate as a Poisson count over their window.
"""

import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.simulation.scaling.calibration import Calibration, Steady
from loadtest.simulation.scaling.replica_lives import Life, Lives
from loadtest.simulation.scaling.request_watch import WINDOW_SECONDS
from loadtest.simulation.scaling.scaling_load import ScalingLoad
from loadtest.simulation.scaling.scaling_result import ScalingResult, Served, needed_hours, scaling_result
from loadtest.simulation.scaling.scaling_rounds import Forecaster, ScalingRounds
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from replicas.controller.decision import Scaler
from replicas.controller.snapshot import Demand, PoolSnapshot

#: Shortest residence of answers, in steps, for which these are counted; below, they follow the rate at once.
_COUNTED = 2.0


@dataclass(slots=True)
class _Pool:
    """A pool: its ready replicas and the answers under way in them."""

    pool: VirtualPool
    calibration: Calibration
    ready: int = 0
    answers: float = 0.0

    @property
    def state(self) -> Steady:
        """The state of each replica."""
        return self.calibration.at_answers(self.answers / self.ready if self.ready else 0.0)

    def room(self, seconds: float) -> float:
        """Requests that may come in within so many seconds."""
        if not self.ready:
            return 0.0
        most = self.calibration.most
        return max(0.0, self.ready * (most.answers + most.rate * seconds) - self.answers)

    def advance(self, arrived: float, seconds: float, state: Steady) -> None:
        """Let requests come, and those end that the replicas serve."""
        if not self.ready:
            return
        served = state.rate * self.ready
        if served and self.answers / served >= _COUNTED * seconds:
            self.answers = max(0.0, self.answers + arrived - served * seconds)
            return
        rate = arrived / seconds / self.ready
        self.answers = self.ready * self.calibration.at_rate(rate).answers


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
        self._pools = {pool.name: _Pool(pool, calibrations[pool.name]) for pool in pools}
        self._prompt, self._output = load.lengths.prompt_mean, load.lengths.output_mean
        self._target = load.slo.first_token(self._prompt)
        self._waiting: deque[list[float]] = deque()  # when they came, and how many
        self._held = 0.0
        self._now = 0.0
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
            self._now = now
            while self.rounds.due <= now:
                self.rounds.hold(now)
            self._advance(rate(now + step / 2) * step, now)
            now += step
        for came, count in self._waiting:
            self._account(came, count, 0.0)

    def demand(self, now: float) -> Demand:
        """Return what clients want."""
        expected = self._load.curve.at(max(0.0, now - WINDOW_SECONDS / 2)) * WINDOW_SECONDS
        seen = max(0.0, self._rng.gauss(expected, expected**0.5))
        oldest = now - self._waiting[0][0] if self._waiting else 0.0
        states = [(pool.state, pool.answers) for pool in self._pools.values() if pool.ready]
        return Demand(
            window=WINDOW_SECONDS,
            requests_per_second=seen / WINDOW_SECONDS,
            prompt_tokens=self._prompt,
            output_tokens=self._output,
            waiting=round(self._held),
            oldest_wait=oldest,
            in_flight=round(sum(answers for _, answers in states)),
            ttft_ratio=max((state.ttft_ratio for state, _ in states), default=0.0) + oldest / self._target,
            tpot_ratio=max((state.tpot_ratio for state, _ in states), default=0.0),
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
        share = pool.answers / pool.ready
        self._left[life.id] = (share, pool.state.p99)
        pool.answers -= share
        pool.ready -= 1

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
        pools = [(pool, pool.room(self._step), pool.state) for pool in self._pools.values() if pool.ready]
        room = sum(free for _, free, _ in pools)
        if self._held + arrived > room or self._waiting:
            self._waiting.append([now, arrived])
            self._held += arrived
            admitted = self._admit(room, now, pools)
        else:
            admitted = arrived
            self._account(now, arrived, _mean_share(pools, room))
        for pool, free, state in pools:
            pool.advance(admitted * free / room if room else 0.0, self._step, state)

    def _admit(self, room: float, now: float, pools: Sequence[tuple[_Pool, float, Steady]]) -> float:
        """Admit waiting requests, the oldest first; return how many."""
        waiting, admitted = self._waiting, 0.0
        share = _mean_share(pools, room)
        # The tables have the TTFT of a replica with a queue of its own; here the wait is counted.
        first = min((pool.calibration.points[0].ttft_p99 for pool, _, _ in pools), default=0.0)
        while waiting and admitted < room:
            came, count = waiting[0]
            taken = min(count, room - admitted)
            admitted += taken
            self._account(came, taken, share if now - came + first <= self._target else 0.0)
            if taken < count:
                waiting[0][1] -= taken
            else:
                waiting.popleft()
        self._held = max(0.0, self._held - admitted)
        return admitted

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
    calibrations: Mapping[str, Calibration],
    *,
    every: float = 15.0,
    seed: int = 0,
    moves: bool = True,
    forecaster: Forecaster | None = None,
    step: float = 1.0,
) -> ScalingResult:
    """Run a contender over a load; an oracle goes by the goodput of the first pool's replicas."""
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
    first = pools[0]
    goodput = calibrations[first.name].goodput(load.slo.in_time).rate
    needed = needed_hours(load, goodput, first.scaling.min, first.scaling.max)
    return scaling_result(name, served, run.lives, run.rounds, load, needed, time.perf_counter() - began)


def _mean_share(pools: Sequence[tuple[_Pool, float, Steady]], room: float) -> float:
    """Return the share in time of what is admitted, by where there is room."""
    return sum(free * state.in_time for _, free, state in pools) / room if room else 0.0
