"""Profiles DeepFlow's heatmap (section 5.3) in virtual time: where a prefill/decode pair beats colocated replicas.

For each prefill length and ratio of decode to prefill length a batch of identical requests arrives at a fixed rate,
once at colocated replicas and once at a pair, in the fleet simulator. Both get the same rate, although a pair has more
GPUs than the one colocated replica of the default comparison: a cell tells where one more request is answered sooner.
The policy sees from the loads that colocated replicas on as many GPUs may serve more in all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from loadtest.simulation.simulate import simulate
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Role, Shape
from replicas.profiles import PROFILES
from routing.contracts.heatmap import VERSION, Cells, Comparison, HeatmapFile
from routing.policies.round_robin import RoundRobin

PREFILL_TOKENS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
RATIOS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Requests per second.
RATES = (0.5, 1.0, 2.0, 4.0)
#: Requests per batch.
REQUESTS = 48
#: Longest answer that is profiled, in tokens; cells beyond it stay empty.
MOST_OUTPUT = 4096

#: Progress callback: label, amount done, total.
Show = Callable[[str, float, int], None] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a profile: `model` is one of replicas/profiles.py, the axes ascend.

    `colocated_replicas` share the requests in turn on one side, a pair takes them on the other.
    """

    model: str
    rates: Sequence[float] = RATES
    prefill_tokens: Sequence[int] = PREFILL_TOKENS
    ratios: Sequence[float] = RATIOS
    requests: int = REQUESTS
    most_output: int = MOST_OUTPUT
    colocated_replicas: int = 1

    def output_tokens(self, prompt: int, ratio: float) -> int | None:
        """Return the answer's length in a cell; None where it exceeds MOST_OUTPUT or the context."""
        output = max(1, round(prompt * ratio))
        fits = output <= self.most_output and prompt + output <= PROFILES[self.model].context
        return output if fits else None


def profile(
    plan: Plan,
    colocated: Sequence[Shape],
    pairs: Sequence[tuple[Shape, Shape]],
    name: str | None = None,
    show: Show = None,
) -> HeatmapFile:
    """Compare every colocated shape with every pair. `name` is the model's name in the configuration.

    Raises ValueError for a model without a profile, and for a shape on which it does not run.
    """
    if plan.model not in PROFILES:
        raise ValueError(f"no profile {plan.model}; there are {', '.join(sorted(PROFILES))}")
    combinations = [(shape, pair) for shape in colocated for pair in pairs]
    comparisons = []
    for number, (shape, pair) in enumerate(combinations):
        whole = Fleet((_pool("whole", shape, Role.BOTH, plan.colocated_replicas),), plan.model)
        apart = Fleet((_pool("prefill", pair[0], Role.PREFILL), _pool("decode", pair[1], Role.DECODE)), plan.model)
        rows = []
        for place, prompt in enumerate(plan.prefill_tokens):
            if show:
                done = number * len(plan.prefill_tokens) + place
                show(f"{prompt} prompt tokens", done, len(combinations) * len(plan.prefill_tokens))
            rows.append([_cell(plan, whole, apart, prompt, ratio) for ratio in plan.ratios])
        cells: Cells = tuple(tuple(cell and cell[0] for cell in row) for row in rows)
        seconds: Cells = tuple(tuple(cell and cell[1] for cell in row) for row in rows)
        comparisons.append(Comparison(shape, *pair, cells, seconds))
    axes = (tuple(plan.rates), tuple(plan.prefill_tokens), tuple(plan.ratios))
    return HeatmapFile("penstock-heatmap", VERSION, name or plan.model, *axes, tuple(comparisons))


def _cell(plan: Plan, whole: Fleet, apart: Fleet, prompt: int, ratio: float) -> tuple[float, float] | None:
    """Return the sum over rates of (JCT colocated / JCT pair - 1), and the pair's mean JCT in seconds."""
    output = plan.output_tokens(prompt, ratio)
    if output is None:
        return None
    gains, seconds = 0.0, []
    for rate in plan.rates:
        one, two = (_completion(plan, fleet, rate, prompt, output) for fleet in (whole, apart))
        if one is None or two is None:
            return None
        gains += one / two - 1
        seconds.append(two)
    return round(gains, 4), round(fmean(seconds), 4)


def _completion(plan: Plan, fleet: Fleet, rate: float, prompt: int, output: int) -> float | None:
    """Return the mean JCT in seconds of identical requests that arrive at a rate; None: they do not fit."""
    requests = [TimedRequest(number / rate, prompt, output) for number in range(plan.requests)]
    times = []
    for outcome in simulate(fleet, requests, RoundRobin, max_tokens=output).outcomes:
        if outcome.ttft is None:
            return None
        times.append(outcome.ttft + (output - 1) * (outcome.tpot or 0.0))
    return fmean(times)


def _pool(name: str, shape: Shape, role: Role, replicas: int = 1) -> Pool:
    return Pool(name, PoolShape(shape.tp, shape.ep, shape.pp), role, replicas)
