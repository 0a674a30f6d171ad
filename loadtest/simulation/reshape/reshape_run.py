"""Runs of requests on groups of GPUs: with shapes that change, or with one arrangement of shapes for good."""

from collections.abc import Iterator, Sequence
from math import log
from typing import Final

import msgspec

from loadtest.reports.statistics import percentile
from loadtest.simulation.baselines import POLICIES
from loadtest.simulation.flight import Outcome
from loadtest.simulation.reshape.grouped_fleet import GroupedFleet, static
from loadtest.simulation.reshape.reshape_rounds import Changed, ReshapeRounds
from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_requests import TimedRequest
from loadtest.simulation.simulation_metrics import meets
from routing.contracts.policy_settings import PolicySettings, Targets

#: Widths of each group's replicas, group by group.
Shapes = Sequence[Sequence[int]]

#: Half a millisecond for each prompt token lets a prompt of 100,000 tokens take 52 s; a TP2 replica computes it in 20.
TARGETS: Final = Targets(ttft_ms=2000, ttft_per_token_ms=0.5, tpot_ms=200)


class ReshapeResult(msgspec.Struct, frozen=True):
    """One run. `rate` are the tokens per second, prompts and answers, of requests that ended while others arrived.

    It is the mean over all moments of the second half at which the run might have been cut off: at a single one, a
    prompt of 100,000 tokens that ends just before or after it makes several percent.

    Times are in seconds; `short` and `long` tell requests apart by whether a TP1 replica holds them. `in_time` are
    shares of all requests of the kind; requests arrived for `seconds`. `over_time` are tokens per second of requests
    that ended within each `WINDOW`. `shapes` are those for good, empty where they changed.
    """

    rate: float
    short_ttft: float | None
    short_ttft_p95: float | None
    long_ttft: float | None
    tpot: float | None
    short_in_time: float
    long_in_time: float
    refused: int
    seconds: float
    over_time: Sequence[float]
    changes: Sequence[Changed] = ()
    shapes: Shapes = ()

    @property
    def held_up(self) -> float:
        """Seconds that changes held replicas up."""
        return sum(changed.seconds for changed in self.changes)


#: Seconds of a window of `over_time`.
WINDOW: Final = 10.0


def run(
    fleet: GroupedFleet,
    requests: Sequence[TimedRequest],
    shapes: Shapes | None,
    *,
    policy: str = "auto",
    dearer: float = 1.0,
) -> ReshapeResult:
    """Run requests, by arrival; without `shapes` the groups change theirs, which costs `dearer` times what it does."""
    most = max(request.output_tokens for request in requests)
    settings = PolicySettings(seed=0, targets=TARGETS)
    make, bound = (lambda: POLICIES[policy](settings)), 1 << (most - 1).bit_length()
    if shapes is None:
        rounds = ReshapeRounds(fleet, requests, dearer=dearer)
        largest = fleet.reshaped_limits[fleet.gpus].kv_tokens
        simulation = Simulation(None, make, max_tokens=bound, rounds=rounds, largest=largest)
        rounds.begin(simulation)
        outcomes = simulation.run(requests).outcomes
        return _result(outcomes, fleet, requests, changes=rounds.changes)
    simulation = Simulation(None, make, max_tokens=bound)
    for replica in static(fleet, shapes):
        simulation.join(replica, 0.0)
    return _result(simulation.run(requests).outcomes, fleet, requests, shapes=shapes)


def arrangements(fleet: GroupedFleet) -> Iterator[Shapes]:
    """Yield all ways to give the groups shapes for good, but for the order of groups and of replicas in them."""
    inside = list(_partitions(fleet.gpus, fleet.gpus))

    def of(groups: int, first: int) -> Iterator[list[list[int]]]:
        if not groups:
            yield []
            return
        for place in range(first, len(inside)):
            for rest in of(groups - 1, place):
                yield [inside[place], *rest]

    yield from of(fleet.groups, 0)


def _partitions(gpus: int, widest: int) -> Iterator[list[int]]:
    """Yield the multisets of powers of two, the widest first, that sum to `gpus`."""
    if not gpus:
        yield []
        return
    width = widest
    while width:
        if width <= gpus:
            for rest in _partitions(gpus - width, width):
                yield [width, *rest]
        width //= 2


def _result(
    outcomes: Sequence[Outcome],
    fleet: GroupedFleet,
    requests: Sequence[TimedRequest],
    *,
    changes: Sequence[Changed] = (),
    shapes: Shapes = (),
) -> ReshapeResult:
    until, narrow = requests[-1].arrival, fleet.reshaped_limits[1].kv_tokens
    windows = [0.0] * (int(until // WINDOW) + 1)
    rate = 0.0
    for outcome in outcomes:
        ended = _ended(outcome)
        if ended is not None and ended <= until:
            tokens = outcome.prompt_tokens + outcome.output_tokens
            windows[int(ended // WINDOW)] += tokens / WINDOW
            # The integral of tokens / t over the moments t of the second half by which it has ended.
            rate += tokens * log(until / max(ended, until / 2)) / (until / 2)
    short = [o for o in outcomes if o.prompt_tokens + o.output_tokens <= narrow]
    long = [o for o in outcomes if o.prompt_tokens + o.output_tokens > narrow]
    tpots = [o.tpot for o in outcomes if o.tpot is not None]
    return ReshapeResult(
        rate,
        _ttft(short, 0.5),
        _ttft(short, 0.95),
        _ttft(long, 0.5),
        sum(tpots) / len(tpots) if tpots else None,
        _in_time(short),
        _in_time(long),
        sum(outcome.ttft is None for outcome in outcomes),
        until,
        windows,
        changes,
        shapes,
    )


def _ended(outcome: Outcome) -> float | None:
    if outcome.ttft is None:
        return None
    return outcome.arrival + outcome.ttft + (outcome.output_tokens - 1) * (outcome.tpot or 0.0)


def _ttft(outcomes: Sequence[Outcome], share: float) -> float | None:
    ttfts = sorted(outcome.ttft for outcome in outcomes if outcome.ttft is not None)
    return percentile(ttfts, share) if ttfts else None


def _in_time(outcomes: Sequence[Outcome]) -> float:
    return sum(meets(outcome, TARGETS) for outcome in outcomes) / len(outcomes) if outcomes else 1.0
