"""A scaler over a load of single requests, in the fleet simulator."""

import time
from collections.abc import Sequence

from loadtest.reports.statistics import percentile
from loadtest.simulation.flight import Outcome
from loadtest.simulation.scaling.replica_lives import Life, Lives
from loadtest.simulation.scaling.request_watch import RequestWatch
from loadtest.simulation.scaling.scaling_load import ScalingLoad
from loadtest.simulation.scaling.scaling_result import ScalingResult, Served, scaling_result
from loadtest.simulation.scaling.scaling_rounds import Forecaster, ScalingRounds
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_replica import Replica
from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Role, Work
from replicas.controller.decision import Scaler
from replicas.controller.scaling_settings import Slo
from routing.contracts.policy_settings import PolicySettings, Targets
from routing.policies.auto import Auto


class RequestRun:
    """One run. Implements the seams of the simulation's rounds and of the replicas' lives."""

    def __init__(
        self,
        scaler: Scaler,
        pools: Sequence[VirtualPool],
        ready: Sequence[int],
        requests: Sequence[TimedRequest],
        slo: Slo,
        *,
        every: float,
        until: float,
        seed: int,
        moves: bool = True,
        early: bool = False,
        forecaster: Forecaster | None = None,
    ) -> None:
        """`ready` are the replicas of each pool at the start; `moves`: what a preempted one had goes on elsewhere."""
        self._requests = requests
        self._moves = moves
        self._engines = {pool.name: (pool.limits, pool.timer) for pool in pools}
        self._replicas: dict[str, Replica] = {}
        self.watch = RequestWatch(requests, slo, early=early)
        self.lives = Lives(pools, self, seed)
        self.rounds = ScalingRounds(scaler, self.lives, self.watch, every=every, until=until, forecaster=forecaster)
        settings = PolicySettings(targets=_targets(slo), seed=seed)
        longest = max(request.output_tokens for request in requests)
        self._simulation = self.watch.simulation = Simulation(
            None,
            lambda: Auto(settings),
            max_tokens=1 << (longest - 1).bit_length(),
            give_up=self.watch.finished,
            rounds=self,
        )
        for pool, count in zip(pools, ready, strict=True):
            self.lives.begin(pool, count)

    def run(self) -> list[Outcome]:
        """Play the requests to their ends."""
        return self._simulation.run(self._requests).outcomes

    @property
    def due(self) -> float:
        """When the next round is."""
        return self.rounds.due

    def hold(self, now: float) -> None:
        """Hold a round."""
        self.rounds.hold(now)

    def stepped(self, replica: Replica, works: Sequence[Work]) -> None:
        """Tell the watch."""
        self.watch.stepped(replica, works)

    def ready(self, life: Life, now: float) -> None:
        """Let a replica serve."""
        limits, timer = self._engines[life.pool.name]
        replica = Replica(life.id, life.pool.name, life.pool.scaling.shape, Role.BOTH, limits, timer)
        self._replicas[life.id] = replica
        self._simulation.join(replica, now)

    def drain(self, life: Life, now: float) -> None:
        """Send a replica nothing more."""
        self._simulation.drain(self._replicas[life.id])

    def ended(self, life: Life, now: float) -> float | None:
        """Return when a draining replica has ended its last step, None while it has more."""
        replica = self._replicas[life.id]
        return max(replica.last, life.drained) if self._simulation.is_drained(replica) else None

    def take(self, life: Life, now: float) -> None:
        """Take a replica away."""
        self._simulation.remove(self._replicas.pop(life.id), now, moves=self._moves)


def run_requests(
    name: str,
    scaler: Scaler,
    pools: Sequence[VirtualPool],
    ready: Sequence[int],
    load: ScalingLoad,
    needed: float,
    *,
    every: float = 5.0,
    seed: int = 0,
    moves: bool = True,
    early: bool = False,
    forecaster: Forecaster | None = None,
) -> ScalingResult:
    """Run a contender over a load; an oracle has `needed` GPU-hours."""
    began = time.perf_counter()
    requests = load.requests(seed)
    run = RequestRun(
        scaler,
        pools,
        ready,
        requests,
        load.slo,
        every=every,
        until=load.curve.end,
        seed=seed,
        moves=moves,
        early=early,
        forecaster=forecaster,
    )
    served = _served(run.run(), load)
    run.lives.finish(load.curve.end)
    return scaling_result(name, served, run.lives, run.rounds, load, needed, time.perf_counter() - began)


def in_time(outcome: Outcome, slo: Slo) -> bool:
    """Whether a request met the targets."""
    if outcome.ttft is None or outcome.ttft > slo.first_token(outcome.prompt_tokens):
        return False
    return outcome.tpot is None or outcome.tpot <= slo.tpot


def _served(outcomes: Sequence[Outcome], load: ScalingLoad, bin_seconds: float = 30.0) -> Served:
    bins: dict[int, list[int]] = {}
    met = lost = 0
    ttfts, whole = [], []
    for outcome in outcomes:
        good = in_time(outcome, load.slo)
        met += good
        counts = bins.setdefault(int(outcome.arrival / bin_seconds), [0, 0])
        counts[0] += 1
        counts[1] += good
        if outcome.ttft is None:
            lost += 1
        else:
            ttfts.append(outcome.ttft)
            whole.append(outcome.ttft + (outcome.output_tokens - 1) * (outcome.tpot or 0.0))
    ttfts.sort()
    whole.sort()
    return Served(
        requests=len(outcomes),
        in_time=met / len(outcomes) if outcomes else 1.0,
        lost=lost,
        ttft_p99=percentile(ttfts, 0.99) if ttfts else 0.0,
        p99=percentile(whole, 0.99) if whole else 0.0,
        bin_seconds=bin_seconds,
        shares=[
            bins[at][1] / bins[at][0] if at in bins else None for at in range(1 + int(load.curve.end / bin_seconds))
        ],
    )


def _targets(slo: Slo) -> Targets:
    return Targets(ttft_ms=slo.ttft * 1e3, ttft_per_token_ms=slo.ttft_per_token * 1e3, tpot_ms=slo.tpot * 1e3)
