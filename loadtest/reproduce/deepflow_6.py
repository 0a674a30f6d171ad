"""DeepFlow's Figure 6: policies on two colocated replicas and one prefill/decode pair, over the request rate."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from loadtest.reproduce.deepflow_5 import MODEL, SHAPE
from loadtest.reproduce.figure_plots import Line, Panel, draw_panels
from loadtest.reproduce.load_blind import LoadBlind
from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.simulation.baselines import POLICIES
from loadtest.simulation.heatmap_search import Plan, profile
from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_requests import TimedRequest
from loadtest.simulation.simulation_metrics import attainment
from loadtest.simulation.synthetic import Synthetic
from loadtest.simulation.workload import WorkloadSpec
from protos.types import Role
from routing.contracts.heatmap import Heatmap
from routing.contracts.policy import RoutingPolicy
from routing.contracts.policy_settings import PolicySettings, Targets
from routing.estimates.decode_length import Oracle

RATES: Final = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0)
#: Code completion: the means of Azure's code trace of 2023 (8,819 requests, github.com/Azure/AzurePublicDataset).
COMPLETION: Final = Synthetic(prompt_tokens=2048, output_tokens=28, variation=1.0)
#: Code generation: whole functions for such prompts; the length is a guess.
GENERATION: Final = Synthetic(prompt_tokens=2048, output_tokens=250, variation=1.0)
LOADS: Final = {"short answers": COMPLETION, "long answers": GENERATION}
#: Share of answers whose length is predicted correctly, as in the paper (section 5.3.2).
ACCURACY: Final = 0.9
#: Relative difference of mean JCTs up to which two policies match.
ALIKE: Final = 0.05
#: Relative difference above which a policy is better or worse.
BETTER: Final = 0.02
#: "Significant degradation" is taken to be at least this share.
SIGNIFICANT: Final = 0.5
#: Share of requests in time from which on a load counts as served.
REQUIRED: Final = 0.95
#: Share of all requests by which a policy may be behind and still serve as many in time.
NOT_FEWER: Final = 0.01

RR, BLIND, AWARE, COMBINED, AUTO = "round_robin", "as published", "pd_heatmap", "combined", "auto"
NAMES: Final = (RR, BLIND, AWARE, COMBINED, AUTO)

_TITLE: Final = "DeepFlow, Figure 6: two colocated replicas and one prefill-decode pair"
_POOL: Final = PoolShape(tp=SHAPE.tp)
_FLEET: Final = Fleet(
    (
        Pool("colocated", _POOL, Role.BOTH, replicas=2),
        Pool("prefill", _POOL, Role.PREFILL),
        Pool("decode", _POOL, Role.DECODE),
    ),
    MODEL,
)
_SETTING: Final = (
    f"{MODEL}, every replica TP4 (paper: an unnamed 34B model, TP4), 16 H100s. The paper's trace of a code generation "
    "service is internal, and it tells no lengths. So there are two loads here, with Poisson arrivals and log-normal "
    "lengths whose standard deviation is as large as the mean; nothing is shared. *Short answers* has the means of "
    f"Azure's code trace of 2023, {COMPLETION.prompt_tokens:,} prompt and {COMPLETION.output_tokens} output tokens, "
    f"*long answers* {GENERATION.output_tokens} output tokens, which is a guess at what writing whole functions takes. "
    "{requests:,} requests at each rate, the mean of {seeds} draws; past 24/s the queues grow as long as a run lasts. "
    f"Policies are told the length of an answer, wrong by a factor of four for {1 - ACCURACY:.0%} of the requests "
    f"(paper: a predictor with {ACCURACY:.0%} accuracy). Their heatmap is that of `penstock bench heatmap --model "
    f"{MODEL} --colocated tp=4 --pair tp=4,tp=4 --colocated-replicas 2`, the lower row of Figure 5 summed over its "
    "rates. *As published* is `pd_heatmap` made blind: it chooses between pair and colocated as if all were idle, "
    "which is the paper's rule, and then the least loaded of that group. In time: TTFT within 1 s and 0.25 ms for each "
    "prompt token, and the mean TPOT within 50 ms."
)


class Point(msgspec.Struct, frozen=True):
    """One policy at one rate: mean JCT and TPOT in seconds, and shares of all requests: on the pair, and in time."""

    jct: float
    tpot: float
    on_pair: float
    in_time: float


class Sizes(msgspec.Struct, frozen=True):
    """Sizes of a run: `requests` at each rate, for each of `draws` random draws."""

    rates: Sequence[float] = RATES
    requests: int = 1500
    seeds: int = 2


#: Points by policy, in the order of the rates.
Points = Mapping[str, Sequence[Point]]


def reproduce(sizes: Sizes | None = None, plan: Plan | None = None, show: Show = None) -> Reproduction:
    """Profile the heatmap, then simulate all loads with all policies at all rates."""
    sizes, plan = sizes or Sizes(), plan or Plan(MODEL, colocated_replicas=2)
    heatmap = Heatmap(profile(plan, [SHAPE], [(SHAPE, SHAPE)], show=show))
    found = {load: _sweep(sizes, heatmap, load, show) for load in LOADS}
    return Reproduction(
        _TITLE,
        _SETTING.format(requests=sizes.requests, seeds=sizes.seeds),
        ["mean JCT, s / mean TPOT, ms / in time", *NAMES],
        [
            [f"{load}, {rate:g}/s", *(_shown(points[name][number]) for name in NAMES)]
            for load, points in found.items()
            for number, rate in enumerate(sizes.rates)
        ],
        [claim for load, points in found.items() for claim in claims(load, sizes.rates, points)],
        {"rates": sizes.rates, "loads": found},
        lambda path: _draw(sizes.rates, found, path),
    )


def claims(load: str, rates: Sequence[float], points: Points) -> Iterator[Claim]:
    """Yield the paper's three observations (section 5.3.2), then what this gateway's own policies must do better."""
    blind = _against_rr(points, BLIND)
    yield Claim(
        f"With {load}: under certain rates PD-aware outperforms RR.",
        min(blind) < -BETTER,
        f"as published, JCT against RR {_each(rates, blind)}.",
    )
    yield Claim(
        f"With {load}: at low rates PD-aware matches RR.",
        abs(blind[0]) <= ALIKE,
        f"as published, {_at(rates, blind, 0)}.",
    )
    yield Claim(
        f"With {load}: at very high rates PD-aware is worse than RR, since the pair overloads.",
        blind[-1] > BETTER,
        f"as published, {_at(rates, blind, -1)}, with {points[BLIND][-1].on_pair:.0%} of the requests on the pair.",
    )
    worst = max(range(len(rates)), key=blind.__getitem__)
    yield Claim(
        f"With {load}: even then it is no significant degradation (less than {SIGNIFICANT:.0%} here).",
        blind[worst] < SIGNIFICANT,
        f"as published, {_at(rates, blind, worst)}: nothing turns requests away from a pair that is full.",
    )
    for name in (AWARE, COMBINED, AUTO):
        yield from _of_ours(load, rates, points, name)


def _of_ours(load: str, rates: Sequence[float], points: Points, name: str) -> Iterator[Claim]:
    change = _against_rr(points, name)
    worst, best = (of(range(len(rates)), key=change.__getitem__) for of in (max, min))
    yield Claim(
        f"With {load}: `{name}` must not lose to RR in JCT at any rate (by more than {BETTER:.0%}).",
        change[worst] <= BETTER,
        f"JCT at worst {_at(rates, change, worst)}, at best {_at(rates, change, best)}; TPOT at {rates[worst]:g}/s "
        f"{1e3 * points[name][worst].tpot:.0f} ms, RR {1e3 * points[RR][worst].tpot:.0f} ms.",
        ours=True,
    )
    more = [one.in_time - other.in_time for one, other in zip(points[name], points[RR], strict=True)]
    least = min(range(len(rates)), key=more.__getitem__)
    yield Claim(
        f"With {load}: `{name}` serves at no rate fewer in time than RR (by more than {NOT_FEWER:.0%} of all).",
        more[least] >= -NOT_FEWER,
        f"at worst {points[name][least].in_time:.1%} against {points[RR][least].in_time:.1%} at {rates[least]:g}/s. "
        f"{REQUIRED:.0%} are in time up to {_served(rates, points[name])}, with RR up to {_served(rates, points[RR])}.",
        ours=True,
    )


def _sweep(sizes: Sizes, heatmap: Heatmap, load: str, show: Show) -> dict[str, list[Point]]:
    """Simulate one load with all policies at all rates."""
    workloads = [WorkloadSpec(LOADS[load], sizes.requests, "poisson", seed).load() for seed in range(sizes.seeds)]
    points: dict[str, list[Point]] = {name: [] for name in NAMES}
    for done, rate in enumerate(sizes.rates):
        if show:
            show(f"{load} at {rate:g}/s", done, len(sizes.rates))
        drawn = [workload.at(rate) for workload in workloads]
        for name, make in _policies(heatmap).items():
            points[name].append(_mean([_play(requests, make) for requests in drawn]))
    return points


def _policies(heatmap: Heatmap) -> dict[str, Callable[[], RoutingPolicy]]:
    settings = PolicySettings(heatmap=heatmap, seed=0)
    served = {name: lambda name=name: POLICIES[name](settings) for name in (RR, AWARE, COMBINED, AUTO)}
    return served | {BLIND: lambda: LoadBlind(POLICIES[AWARE](settings))}


def _play(requests: Sequence[TimedRequest], make: Callable[[], RoutingPolicy]) -> Point:
    known = {str(number): request.output_tokens for number, request in enumerate(requests)}
    longest = max(known.values())
    simulation = Simulation(
        _FLEET, make, max_tokens=1 << (longest - 1).bit_length(), lengths=lambda: Oracle(known, ACCURACY)
    )
    result = simulation.run(requests)
    outcomes = [o for o in result.outcomes if o.ttft is not None]
    return Point(
        fmean((o.ttft or 0.0) + (o.output_tokens - 1) * (o.tpot or 0.0) for o in outcomes),
        fmean(o.tpot for o in outcomes if o.tpot is not None),
        fmean(bool(o.prefill) for o in outcomes),
        attainment(result, Targets()),
    )


def _mean(points: Sequence[Point]) -> Point:
    return Point(*(fmean(getattr(point, field) for point in points) for field in Point.__struct_fields__))


def _against_rr(points: Points, name: str) -> list[float]:
    """Return by how much the mean JCT exceeds round robin's at each rate, as a share."""
    return [one.jct / other.jct - 1 for one, other in zip(points[name], points[RR], strict=True)]


def _at(rates: Sequence[float], change: Sequence[float], number: int) -> str:
    return f"{change[number]:+.1%} at {rates[number]:g}/s"


def _served(rates: Sequence[float], points: Sequence[Point]) -> str:
    """Return the highest rate that is served, as text."""
    served = [rate for rate, point in zip(rates, points, strict=True) if point.in_time >= REQUIRED]
    return f"{max(served):g}/s" if served else "none of the rates"


def _each(rates: Sequence[float], change: Sequence[float]) -> str:
    return ", ".join(_at(rates, change, number) for number in range(len(rates)))


def _shown(point: Point) -> str:
    return f"{point.jct:.2f} / {1e3 * point.tpot:.1f} / {point.in_time:.0%}"


def _draw(rates: Sequence[float], found: Mapping[str, Points], path: Path) -> None:
    figures: tuple[tuple[str, Callable[[Point], float], bool], ...] = (
        ("mean JCT, s", lambda point: point.jct, True),
        ("mean TPOT, ms", lambda point: 1e3 * point.tpot, True),
        ("in time, % of all requests", lambda point: 100 * point.in_time, False),
    )
    grid = [
        [
            Panel(
                f"{load} ({LOADS[load].output_tokens} tokens)",
                "requests/s",
                label,
                [Line(name, rates, [of(point) for point in points[name]]) for name in NAMES],
                log_y=log_y,
            )
            for label, of, log_y in figures
        ]
        for load, points in found.items()
    ]
    draw_panels(grid, f"{_TITLE} ({MODEL}, TP4)", path)
