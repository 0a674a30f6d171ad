"""What gateways and engines would tell a controller of a simulation of single requests."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import exp

import msgspec

from loadtest.reports.statistics import percentile
from loadtest.simulation.flight import Outcome
from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_replica import Replica
from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Work
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import Demand, PoolSnapshot
from routing.estimates.step_model import StepModel

#: Seconds over which arrivals, latencies and busy time are counted, and in which an ended request's tokens count less
#: by e: those of gateway/scaling/demand/demand_counter.py.
WINDOW_SECONDS, MEMORY_SECONDS = 30.0, 120.0


class RequestWatch:
    """Watches a simulation of `requests`."""

    def __init__(self, requests: Sequence[TimedRequest], slo: Slo, *, early: bool = False) -> None:
        """With `early` a TTFT counts from the first token on, as engines' metrics do; else when a request has ended."""
        self.simulation: Simulation | None = None
        self._slo = slo
        self._early = early
        self._arrivals = [request.arrival for request in requests]
        self._ttft: deque[tuple[float, float]] = deque()
        self._tpot: deque[tuple[float, float]] = deque()
        self._first_tokens: set[int] = set()
        self._sums = [0.0] * 4  # fading: ended requests, their prompt, cached and output tokens
        self._faded_at = 0.0
        #: Learned step times, by pool.
        self.steps: dict[str, StepModel] = {}
        self._busy: dict[str, deque[tuple[float, dict[str, float]]]] = {}

    def stepped(self, replica: Replica, works: Sequence[Work]) -> None:
        """Learn the step times of a pool, as gateways do."""
        model = self.steps.get(replica.pool)
        if model is None:
            model = self.steps[replica.pool] = StepModel(replica.shape.gpus)
        for work in works:
            model.learn(work)

    def finished(self, outcome: Outcome) -> bool:
        """Note a request's end; returns False: the simulation goes on."""
        if outcome.ttft is None:
            return False
        further = outcome.output_tokens - 1
        at = outcome.arrival + outcome.ttft + further * (outcome.tpot or 0.0)
        self._fade(at)
        tokens = (1, outcome.prompt_tokens, outcome.cached_tokens, outcome.output_tokens)
        self._sums = [total + value for total, value in zip(self._sums, tokens, strict=True)]
        if not self._early:
            self._ttft.append((at, outcome.ttft / self._slo.first_token(outcome.prompt_tokens)))
        if outcome.tpot is not None:
            self._tpot.append((at, outcome.tpot / self._slo.tpot))
        return False

    def demand(self, now: float) -> Demand:
        """Return what clients want."""
        simulation = self._running()
        window = min(WINDOW_SECONDS, now)
        arrived = bisect_right(self._arrivals, now) - bisect_right(self._arrivals, now - window)
        self._fade(now)
        ended, prompt, cached, output = self._sums
        if self._early:
            self._look_for_first_tokens(simulation)
        since = simulation.waiting_since
        return Demand(
            window=window,
            requests_per_second=arrived / window if window else 0.0,
            prompt_tokens=prompt / ended if ended else 0.0,
            cached_tokens=cached / ended if ended else 0.0,
            output_tokens=output / ended if ended else 0.0,
            waiting=simulation.waiting,
            oldest_wait=now - since if since is not None else 0.0,
            in_flight=simulation.unfinished - simulation.waiting,
            ttft_ratio=_p95(self._ttft, now),
            tpot_ratio=_p95(self._tpot, now),
        )

    def pool(self, name: str, now: float) -> PoolSnapshot:
        """Return what the engines of a pool report."""
        replicas = [replica for replica in self._running().replicas if replica.pool == name]
        model = self.steps.get(name)
        known = PoolSnapshot(step_times=model if model and model.steps else None)
        busy = self._occupancy(name, replicas, now)
        if not replicas:
            return known
        loads = [replica.load for replica in replicas]
        limits = replicas[0].limits
        return msgspec.structs.replace(
            known,
            running=sum(load.running for load in loads),
            waiting=sum(load.waiting for load in loads),
            kv_used=sum(load.kv_blocks_used / load.kv_blocks_total for load in loads) / len(loads),
            occupancy=busy,
            kv_tokens=limits.kv_tokens,
            max_sequences=limits.max_batch_size,
            max_step_tokens=limits.max_num_tokens,
        )

    def _running(self) -> Simulation:
        assert self.simulation is not None
        return self.simulation

    def _look_for_first_tokens(self, simulation: Simulation) -> None:
        for replica in simulation.replicas:
            for leg in replica.model.unfinished:
                number, timed = leg.flight.number, leg.flight.timed
                if leg.first_token is not None and number not in self._first_tokens:
                    self._first_tokens.add(number)
                    ratio = (leg.first_token - timed.arrival) / self._slo.first_token(timed.prompt_tokens)
                    self._ttft.append((leg.first_token, ratio))

    def _fade(self, now: float) -> None:
        if now > self._faded_at:
            factor = exp((self._faded_at - now) / MEMORY_SECONDS)
            self._sums = [total * factor for total in self._sums]
            self._faded_at = now

    def _occupancy(self, name: str, replicas: Sequence[Replica], now: float) -> float:
        """Return the busy share of the replicas' time since the window began, or since the last one joined."""
        samples = self._busy.setdefault(name, deque())
        samples.append((now, {replica.id: replica.busy for replica in replicas}))
        while len(samples) > 2 and now - samples[1][0] >= WINDOW_SECONDS:
            samples.popleft()
        since, before = samples[0]
        if not replicas or now <= since:
            return 0.0
        spent = sum(replica.busy - before.get(replica.id, 0.0) for replica in replicas)
        return min(1.0, spent / ((now - since) * len(replicas)))


def _p95(ratios: deque[tuple[float, float]], now: float) -> float:
    while ratios and ratios[0][0] < now - WINDOW_SECONDS:
        ratios.popleft()
    return percentile(sorted(ratio for _, ratio in ratios), 0.95) if ratios else 0.0
