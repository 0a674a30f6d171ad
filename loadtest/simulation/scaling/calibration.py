"""What one replica of a pool does at a steady rate, measured by the simulator of single requests."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import msgspec

from loadtest.reports.statistics import percentile
from loadtest.simulation.scaling.load_lengths import Lengths
from loadtest.simulation.scaling.request_run import RequestRun, in_time
from loadtest.simulation.scaling.scaling_load import RateCurve, ScalingLoad
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from replicas.controller.capacity import replica_capacity
from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.scaling_settings import ModelScaling, Slo
from replicas.controller.snapshot import PoolSnapshot, Snapshot
from replicas.controller.workload import Workload
from replicas.timing import Batch
from routing.estimates.step_model import StepModel

#: Replicas that are measured together; rates per replica over that at which answers under way meet the target pace.
REPLICAS: Final = 4
RATES: Final = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35)
#: Seconds that are measured at least, after as many answers' lengths have passed.
MEASURED_SECONDS, WARM_ANSWERS = 60.0, 3.0
#: Share of arrivals that must be served for a rate to be one that a replica keeps up with.
KEEPS_UP: Final = 0.98

#: Prompt tokens of a step in which arithmetic decides.
_SOME_TOKENS: Final = 2048


class Steady(msgspec.Struct, frozen=True):
    """A steady rate of requests per second and replica: answers under way in each, and the share in time.

    The ratios are p95 over the targets. `ttft_p99` and `p99`, of whole requests, are in seconds.
    """

    rate: float
    answers: float
    in_time: float
    ttft_ratio: float
    tpot_ratio: float
    ttft_p99: float
    p99: float
    occupancy: float
    kv_used: float


class Calibration(msgspec.Struct, frozen=True, dict=True):
    """Steady rates of one replica, ascending; the last one is the most that it does at all.

    `prompt_seconds` is what one prompt adds to its steps. `steps` are what gateways have learned of its step times
    meanwhile.
    """

    points: Sequence[Steady]
    prompt_seconds: float
    steps: StepModel

    @property
    def most(self) -> Steady:
        """The state of a replica that has more than enough to do."""
        return self.points[-1]

    @cached_property
    def paced(self) -> Steady:
        """The state up to which pacing admits requests that are not late yet: the first at which most are late."""
        return next((point for point in self.points if point.in_time < 0.5), self.points[-1])

    def at_answers(self, answers: float) -> Steady:
        """Return the state with so many answers under way."""
        return self._at(self._answers, answers)

    def at_rate(self, rate: float) -> Steady:
        """Return the state at a rate."""
        return self._at(self._rates, rate)

    @cached_property
    def _answers(self) -> list[float]:
        return [point.answers for point in self.points]

    @cached_property
    def _rates(self) -> list[float]:
        return [point.rate for point in self.points]

    @cached_property
    def _values(self) -> list[tuple[float, ...]]:
        return [msgspec.structs.astuple(point) for point in self.points]

    def goodput(self, share: float) -> Steady:
        """Return the highest rate at which such a share is in time, and the state then."""
        best = self.points[0]
        for below, above in zip(self.points, self.points[1:], strict=False):
            if above.in_time >= share:
                best = above
                continue
            if below.in_time >= share:
                part = (below.in_time - share) / (below.in_time - above.in_time)
                best = self.at_rate(below.rate + part * (above.rate - below.rate))
            break
        return best

    def served(self, answers: float, admitted: float) -> float:
        """Return the requests per second that end while so many answers are under way and `admitted` per second begin.

        In a steady state both rates are the same. Where more begin, their prompts lengthen the steps of all.
        """
        steady = self.at_answers(answers).rate
        least = 0.05  # prompts alone never stop an engine: a step has a bounded number of their tokens
        left = max(least, 1.0 - admitted * self.prompt_seconds)
        return steady * left / max(least, 1.0 - steady * self.prompt_seconds)

    def _at(self, known: Sequence[float], value: float) -> Steady:
        place = min(max(bisect_left(known, value), 1), len(known) - 1)
        below = self.points[place - 1]
        span = known[place] - known[place - 1]
        part = min(max((value - known[place - 1]) / span, 0.0), 1.0) if span > 0 else 1.0
        if place == 1 and value < known[0]:
            # Below the first point all goes in proportion to the rate.
            return msgspec.structs.replace(
                below, rate=below.rate * value / known[0], answers=below.answers * value / known[0]
            )
        low, high = self._values[place - 1], self._values[place]
        return Steady(*[one + part * (other - one) for one, other in zip(low, high, strict=True)])


def predicted(pool: VirtualPool, calibration: Calibration, lengths: Lengths, slo: Slo) -> float:
    """Return the requests per second and replica that the controller's model says are served in time, of as many
    replicas as were measured.
    """
    limits, steps = pool.limits, calibration.steps
    seen = PoolSnapshot(
        ready=REPLICAS,
        kv_tokens=limits.kv_tokens,
        max_sequences=limits.max_batch_size,
        max_step_tokens=limits.max_num_tokens,
        step_times=steps,
    )
    workload = Workload(prompt=lengths.prompt_mean, cached=0.0, output=lengths.output_mean)
    replica = replica_capacity(pool.scaling.role, seen, steps, workload, slo)
    scaling = ModelScaling(model="simulated", pools=[pool.scaling], slo=slo)
    return FleetCapacity(scaling, {pool.name: replica}).rate({pool.name: REPLICAS}) / REPLICAS


class _Constant:
    """Keeps the replicas, and notes what is seen of them."""

    def __init__(self, pool: str, replicas: int) -> None:
        self.seen: list[Snapshot] = []
        self._pool, self._replicas = pool, replicas

    def decide(self, snapshot: Snapshot) -> Decision:
        self.seen.append(snapshot)
        pools = {self._pool: PoolDecision(wanted=self._replicas)}
        return Decision(at=snapshot.now, pools=pools, cost=None, inputs={}, reasons=())


def calibrate(pool: VirtualPool, lengths: Lengths, slo: Slo, seed: int = 1) -> Calibration:
    """Measure a pool's replicas at rates from rest to overload; takes some seconds."""
    paced, seconds = _paced(pool, lengths, slo)
    base = paced / seconds
    points: list[Steady] = []
    steps = StepModel(pool.scaling.shape.gpus)
    for part in RATES:
        point, arrived = _measure(pool, lengths, slo, base * part, seconds, seed, steps)
        if points and point.rate < points[-1].rate * 1.01:
            break
        points.append(point)
        if point.rate < arrived * KEEPS_UP:
            break
    return Calibration(points, _prompt_seconds(pool, lengths, points[len(points) // 2].answers), steps)


def _measure(
    pool: VirtualPool, lengths: Lengths, slo: Slo, rate: float, seconds: float, seed: int, steps: StepModel
) -> tuple[Steady, float]:
    """Return the state at a rate, and the requests that came per second and replica."""
    warm = WARM_ANSWERS * seconds
    end = warm + max(MEASURED_SECONDS, 2 * warm)
    load = ScalingLoad(name="steady", curve=RateCurve((0.0,), (rate * REPLICAS,), end), lengths=lengths, slo=slo)
    constant = _Constant(pool.name, REPLICAS)
    run = RequestRun(constant, [pool], [REPLICAS], load.requests(seed), slo, every=1.0, until=end, seed=seed)
    run.watch.steps[pool.name] = steps
    outcomes = [outcome for outcome in run.run() if outcome.arrival >= warm]
    ended = [
        (outcome.arrival + whole, whole, outcome.ttft or 0.0)
        for outcome in outcomes
        for whole in [(outcome.ttft or 0.0) + (outcome.output_tokens - 1) * (outcome.tpot or 0.0)]
    ]
    within = sum(at <= end for at, _, _ in ended)
    # Those under way when the measurement began are not counted, those at its end are: both about as many.
    seen = [snapshot for snapshot in constant.seen if snapshot.now >= warm]
    states = [snapshot.pools[pool.name] for snapshot in seen]
    running = sum(snapshot.demand.in_flight for snapshot in seen) / len(seen) / REPLICAS
    waiting = seen[-1].demand.waiting
    arrived = len(outcomes) / (end - warm) / REPLICAS
    served = arrived if waiting < running else min(arrived, (within + running * REPLICAS) / (end - warm) / REPLICAS)
    ttfts, whole = sorted(entry[2] for entry in ended), sorted(entry[1] for entry in ended)
    paces = sorted(outcome.tpot / slo.tpot for outcome in outcomes if outcome.tpot is not None)
    firsts = sorted((o.ttft or 0.0) / slo.first_token(o.prompt_tokens) for o in outcomes)
    found = Steady(
        rate=served,
        answers=running,
        in_time=sum(in_time(outcome, slo) for outcome in outcomes) / len(outcomes),
        ttft_ratio=percentile(firsts, 0.95),
        tpot_ratio=percentile(paces, 0.95) if paces else 0.0,
        ttft_p99=percentile(ttfts, 0.99),
        p99=percentile(whole, 0.99),
        occupancy=sum(state.occupancy for state in states) / len(states),
        kv_used=sum(state.kv_used for state in states) / len(states),
    )
    return found, arrived


def _prompt_seconds(pool: VirtualPool, lengths: Lengths, answers: float) -> float:
    """Return the seconds that a mean prompt adds to a step beside so many answers, in a step with several prompts."""
    prompt = lengths.prompt_mean
    prompts = max(1.0, _SOME_TOKENS / prompt)
    decode, tokens = round(answers), round(min(prompts * prompt, pool.limits.max_num_tokens - answers))
    context = round(answers * (prompt + lengths.output_mean / 2))
    alone = pool.timer.step_seconds(Batch(decode=decode, decode_context=context, outputs=decode))
    beside = Batch(
        decode=decode,
        decode_context=context,
        prefill=tokens,
        prefill_pairs=round(tokens * prompt / 2),
        outputs=decode + round(prompts),
    )
    return (pool.timer.step_seconds(beside) - alone) * prompt / tokens


def _paced(pool: VirtualPool, lengths: Lengths, slo: Slo) -> tuple[float, float]:
    """Return the answers at which a steady step takes the target TPOT or the KV is full, and the seconds of each."""
    timer, limits = pool.timer, pool.limits
    prompt, output = lengths.prompt_mean, lengths.output_mean
    per_answer, context = prompt / output, prompt + output / 2
    low, high = 1.0, min(float(limits.max_batch_size), limits.kv_tokens / (prompt + output))

    def step(answers: float) -> float:
        tokens = min(answers * per_answer, max(1.0, limits.max_num_tokens - answers))
        return timer.step_seconds(
            Batch(
                decode=round(answers),
                decode_context=round(answers * context),
                prefill=round(tokens),
                prefill_pairs=round(tokens * prompt / 2),
                outputs=round(answers * (1 + 1 / output)),
            )
        )

    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if step(middle) <= slo.tpot else (low, middle)
    return low, output * step(low)
