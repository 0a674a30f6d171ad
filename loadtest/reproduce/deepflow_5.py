"""DeepFlow's Figure 5: completion times of colocated replicas relative to a prefill/decode pair, by length and rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from loadtest.reproduce.figure_plots import Map, draw_maps
from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.simulation.heatmap_search import Plan, profile
from protos.types import Shape
from routing.contracts.heatmap import Cells

#: A dense model like the paper's unpublished one of 34B, and twice as large.
MODEL: Final = "llama-3.1-70b"
SHAPE: Final = Shape(tp=4)
#: Share of the JCT up to which the loss of a wrong choice counts as minimal.
MINIMAL: Final = 0.10
#: Share of the cells that keep their sign at all rates (section 5.3.2).
STEADY: Final = 0.80

_TITLE: Final = "DeepFlow, Figure 5: JCT colocated / JCT on a prefill-decode pair - 1"
_SETTING: Final = (
    f"{MODEL} on H100s with TP4 (paper: an unnamed 34B model, TP4). For each cell {{requests}} identical requests come "
    "at a fixed rate, once to colocated replicas with chunked prefill, once to one prefill and one decode replica. The "
    "paper tells neither its rates nor its axes, nor whether both sides have as many GPUs. So the upper row sets *one* "
    "colocated replica against the pair, which is the map that `penstock bench heatmap` makes by default, and the "
    "lower row *two*, which take the requests in turn on the same number of GPUs (`--colocated-replicas 2`). "
    "Numbers are percent; red: the pair is better; grey: answers of more than 4,096 tokens, which were not run."
)
_SIDES: Final = {1: "one colocated replica", 2: "two, as many GPUs"}


@dataclass(frozen=True, slots=True)
class Maps:
    """The heatmaps of one side, in the order of the plan's rates."""

    name: str
    by_rate: tuple[Cells, ...]

    def known(self, number: int) -> list[float]:
        """Return all cells at one rate that fit the model."""
        return [cell for row in self.by_rate[number] for cell in row if cell is not None]


def reproduce(plan: Plan | None = None, show: Show = None) -> Reproduction:
    """Profile each rate separately, against one and against two colocated replicas."""
    plan = plan or Plan(MODEL)
    sides = [_profile(plan, replicas, show) for replicas in _SIDES]
    rows = [
        [side.name, f"{rate:g}", f"{min(known):+.0%} to {max(known):+.0%}", f"{_share_positive(known):.0%}"]
        for side in sides
        for number, rate in enumerate(plan.rates)
        if (known := side.known(number))
    ]
    return Reproduction(
        _TITLE,
        _SETTING.format(requests=plan.requests),
        ["against", "requests/s", "cells", "pair better in"],
        rows,
        list(claims(plan, sides)),
        {"plan": plan, "maps": sides},
        lambda path: _draw(plan, sides, path),
    )


def claims(plan: Plan, sides: Sequence[Maps]) -> Iterator[Claim]:
    """Yield the paper's three observations (section 5.3.1), each part separately, for each of the sides."""
    for side in sides:
        yield from _of_side(plan, side)


def _of_side(plan: Plan, side: Maps) -> Iterator[Claim]:
    rates = range(len(plan.rates))
    against = f"Against {side.name}"
    quarters = [_quarters(plan, side.by_rate[number]) for number in rates]
    yield Claim(
        f"{against}: pairs are better for longer prompts and shorter decode.",
        all(q["long", "short"] > max(0.0, *(q[k] for k in q if k != ("long", "short"))) for q in quarters),
        "mean of long prompts with low ratios, and the best other quarter of the map: "
        + _each(
            plan,
            [f"{q['long', 'short']:+.1%} and {max(q[k] for k in q if k != ('long', 'short')):+.1%}" for q in quarters],
        ),
    )
    yield Claim(
        f"{against}: as prompts get longer, their advantage grows at longer decode lengths, too.",
        all(q["long", "long"] > q["short", "long"] for q in quarters),
        "mean of high ratios, short prompts and long ones: "
        + _each(plan, [f"{q['short', 'long']:+.1%} and {q['long', 'long']:+.1%}" for q in quarters]),
    )
    best, worst = ([of(side.known(number)) for number in rates] for of in (max, min))
    yield Claim(
        f"{against}: the pair's largest advantage is larger than the colocated replica's.",
        all(most > -least for most, least in zip(best, worst, strict=True)),
        _each(plan, [f"{most:+.0%} and {least:+.1%}" for most, least in zip(best, worst, strict=True)]),
    )
    yield Claim(
        f"{against}: a wrong choice of the pair loses little (less than {MINIMAL:.0%}).",
        min(worst) > -MINIMAL,
        f"at most {-min(worst):.1%}.",
    )
    cells = [
        [side.by_rate[number][y][x] for number in rates]
        for y in range(len(plan.prefill_tokens))
        for x in range(len(plan.ratios))
    ]
    known = [[value for value in each if value is not None] for each in cells if None not in each]
    steady = sum(min(each) > 0 or max(each) < 0 for each in known) / len(known)
    yield Claim(
        f"{against}: who is better is the same at all rates (in over {STEADY:.0%} of the cells).",
        steady > STEADY,
        f"in {steady:.0%} of {len(known)} cells over {', '.join(f'{rate:g}' for rate in plan.rates)} requests/s.",
    )


def _profile(plan: Plan, replicas: int, show: Show) -> Maps:
    """Profile each rate's heatmap for `replicas` colocated replicas."""
    maps = []
    for rate in plan.rates:
        one = replace(plan, rates=(rate,), colocated_replicas=replicas)
        maps.append(profile(one, [SHAPE], [(SHAPE, SHAPE)], show=show).comparisons[0].cells)
    return Maps(_SIDES[replicas], tuple(maps))


def _quarters(plan: Plan, cells: Cells) -> dict[tuple[str, str], float]:
    """Return the means over the quarters of a map, by (prompt, decode), each short or long."""
    found: dict[tuple[str, str], list[float]] = {}
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            if cell is not None:
                prompt = "long" if 2 * y >= len(plan.prefill_tokens) else "short"
                decode = "long" if 2 * x >= len(plan.ratios) else "short"
                found.setdefault((prompt, decode), []).append(cell)
    return {quarter: sum(values) / len(values) for quarter, values in found.items()}


def _share_positive(known: Sequence[float]) -> float:
    return sum(cell > 0 for cell in known) / len(known)


def _each(plan: Plan, found: Sequence[str]) -> str:
    return "; ".join(f"{one} at {rate:g}/s" for rate, one in zip(plan.rates, found, strict=True)) + "."


def _draw(plan: Plan, sides: Sequence[Maps], path: Path) -> None:
    grid = [
        [Map(f"{side.name}, {rate:g}/s", side.by_rate[number]) for number, rate in enumerate(plan.rates)]
        for side in sides
    ]
    draw_maps(
        grid,
        [f"{tokens:,}" for tokens in plan.prefill_tokens],
        [f"{ratio:g}" for ratio in plan.ratios],
        ("decode / prefill length", "prefill length, tokens"),
        f"{_TITLE}, % ({plan.model}, TP4)",
        path,
    )
