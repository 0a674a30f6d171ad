"""DeepFlow's Figures 8 to 10: from the decision to start replicas to their first tokens, and how weights are loaded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.reproduce.start_plots import draw_starts
from protos.types import Shape
from replicas.fast_start.preparations import ALL, COLD, Preparation, WeightSource
from replicas.fast_start.start_model import DEFAULT, StartCoefficients, StartModel, StartTimes
from replicas.profiles import PROFILES

#: The GPUs of each model, so that each GPU has about as many bytes of weights, as in Figure 9.
MODELS: Final = {"llama-3.1-8b": 1, "mixtral-8x7b": 4, "llama-3.1-70b": 8}
COUNTS: Final = (1, 2, 4, 8, 16, 32, 64)
NOTHING, OPTIMIZED, STANDBY, EVERYTHING = "nothing", "all but engines", "engines, DRAM hit", "engines, fork"
_HIT: Final = replace(ALL, weights=WeightSource.PAGE_CACHE)
CASES: Final[Mapping[str, Preparation]] = {
    NOTHING: COLD,
    OPTIMIZED: replace(_HIT, engine=False),
    STANDBY: _HIT,
    EVERYTHING: ALL,
}
#: Issue's bounds: everything on against everything off, and 64 replicas against one.
FAST: Final = 0.2
TOGETHER: Final = 1.5
#: "Similar", "significantly", "limited": the numbers that are taken for them.
SIMILAR: Final = 0.1
SIGNIFICANT: Final = 0.2
LIMITED: Final = 0.1
#: Assumed seconds of what preparation saves, and of what it leaves.
SAVED: Final = ("pod", "imports", "devices", "collectives", "collectives_gpu", "profiling", "blocks")
LEFT: Final = ("bind", "adapt", "connect", "connect_peer", "first_request", "fork_contention", "source_busy")

_TITLE: Final = "DeepFlow, Figures 8 to 10: from the decision to the first token"
_SETTING: Final = (
    "llama-3.1-8b on one H100, mixtral-8x7b on four, llama-3.1-70b on eight, FP8: 9 to 12 GB of weights a GPU (paper: "
    "unnamed Ascend NPUs). Seconds of each step of Table 2 by the start model, which the simulated engine goes through "
    "(`--simulate-start`); [fast-start.md](fast-start.md) lists its coefficients. **That a claim holds is no evidence "
    "where an assumption was made so:** the paper shows its numbers only as pictures, and of the coefficients only "
    "rates of links and 0.3 s for tensors have a source. What the model adds is how much each preparation is worth "
    "beside the others, and how wrong the assumptions may be before that changes. *All but engines*: a pod waits, the "
    "weights are in the page cache, KV sizes are known, a dummy request is answered, gateways are told. *Engines*: a "
    "process with libraries and devices waits as well."
)


class Found(msgspec.Struct, frozen=True):
    """One model: seconds of the steps by case, seconds to load by source, and both for many replicas at once."""

    tp: int
    gpu_bytes: float
    steps: Mapping[str, Mapping[str, float]]
    loads: Mapping[str, float]
    theoretical: float
    load_of: Mapping[int, float]
    total_of: Mapping[int, float]
    busy: float
    wary: float

    def total(self, case: str) -> float:
        """Return the seconds from the decision to the first token."""
        return sum(self.steps[case].values())


def reproduce(models: Mapping[str, int] = MODELS, show: Show = None) -> Reproduction:
    """Work out the times of all models."""
    found = {name: _of(name, tp) for name, tp in models.items()}
    if show:
        show("start times", len(found), len(found))
    return Reproduction(
        _TITLE,
        _SETTING,
        ["seconds", *_steps(found), "total", "of nothing"],
        [
            [
                f"{name}, {case}",
                *(f"{seconds:.2f}" for seconds in one.steps[case].values()),
                f"{one.total(case):.2f}",
                f"{one.total(case) / one.total(NOTHING):.1%}",
            ]
            for name, one in found.items()
            for case in CASES
        ],
        list(claims(found)),
        found,
        partial(_draw, found),
    )


def claims(found: Mapping[str, Found]) -> Iterator[Claim]:
    """Yield the paper's statements, then the bounds that are this project's."""
    share = {name: one.steps[OPTIMIZED]["process"] / one.total(OPTIMIZED) for name, one in found.items()}
    left = {name: one.total(STANDBY) / one.total(OPTIMIZED) for name, one in found.items()}
    yield Claim(
        "Figure 8: even after optimizations TE-Pre-Load dominates; pre-warmed engines remove it.",
        min(share.values()) > 1 / 2 and max(left.values()) < 1 / 2,
        f"without them it is {_each(share, '{:.0%}')}; with them the whole takes {_each(left, '{:.0%}')} of that.",
    )
    hit, miss, fork, slow = (
        {name: one.loads[source.value] for name, one in found.items()}
        for source in (WeightSource.PAGE_CACHE, WeightSource.DISK, WeightSource.FORK, WeightSource.SLOW_FORK)
    )
    yield Claim(
        "Figure 9: a DRAM hit is faster than a miss, and local loading takes longer with more GPUs.",
        all(hit[name] < miss[name] for name in found) and _grows(hit) and _grows(miss),
        f"hits {_each(hit, '{:.2f} s')}; misses {_each(miss, '{:.2f} s')}.",
    )
    over = {name: hit[name] - one.theoretical - DEFAULT.tensors for name, one in found.items()}
    yield Claim(
        "Figure 9: beyond bytes over the PCIe rate a hit takes 0.3 s and contention, which grows with TP.",
        min(over.values()) >= 0 and _grows(over),
        f"beyond both {_each(over, '{:.2f} s')}.",
    )
    yield Claim(
        f"Figure 9: forks take a similar time for the three models (within {SIMILAR:.0%}).",
        max(fork.values()) <= (1 + SIMILAR) * min(fork.values()),
        f"{_each(fork, '{:.2f} s')}.",
    )
    yield Claim(
        f"Figure 9: forks over the scale-up network are significantly faster (by over {SIGNIFICANT:.0%}).",
        all(fork[name] < (1 - SIGNIFICANT) * slow[name] for name in found),
        f"over the scale-out network {_each(slow, '{:.2f} s')}.",
    )
    yield Claim(
        f"Figure 10: a source that serves meanwhile hardly takes longer (less than {LIMITED:.0%}).",
        all(one.busy < (1 + LIMITED) * fork[name] for name, one in found.items()),
        _each({name: one.busy / fork[name] - 1 for name, one in found.items()}, "{:+.1%}") + ".",
    )
    most = max(COUNTS)
    together = {name: one.load_of[most] / one.load_of[1] for name, one in found.items()}
    whole = {name: one.total_of[most] / one.total_of[1] for name, one in found.items()}
    yield Claim(
        f"Figure 10: {most} replicas are forked at once in hardly more time than one (within {TOGETHER:g}x).",
        max(*together.values(), *whole.values()) <= TOGETHER,
        f"loading {_each(together, '{:.2f}x')}; the whole {_each(whole, '{:.2f}x')}.",
    )
    fast = {name: one.total(EVERYTHING) / one.total(NOTHING) for name, one in found.items()}
    yield Claim(
        f"With everything on it takes at most {FAST:g} of the time with everything off.",
        max(fast.values()) <= FAST,
        f"{_each(fast, '{:.3f}')}.",
        ours=True,
    )
    wary = {name: one.wary for name, one in found.items()}
    yield Claim(
        "So it does where what is saved takes half of what is assumed and what is left twice as much.",
        max(wary.values()) <= FAST,
        f"{_each(wary, '{:.3f}')}.",
        ours=True,
    )


def wary() -> StartCoefficients:
    """Return coefficients that favour a cold start, within a factor of two."""
    halved = {name: getattr(DEFAULT, name) / 2 for name in SAVED}
    return replace(DEFAULT, **halved, **{name: getattr(DEFAULT, name) * 2 for name in LEFT})


def _of(name: str, tp: int) -> Found:
    start, doubted = (StartModel(PROFILES[name], Shape(tp=tp), coefficients=c) for c in (DEFAULT, wary()))
    many = {count: start.times(ALL, replicas=count) for count in COUNTS}
    return Found(
        tp,
        start.gpu_bytes,
        {case: _seconds(start.times(prepared)) for case, prepared in CASES.items()},
        {source.value: start.load(source) for source in WeightSource},
        start.theoretical(),
        {count: times.load for count, times in many.items()},
        {count: times.total for count, times in many.items()},
        start.load(WeightSource.FORK, source_load=1.0),
        doubted.times(ALL).total / doubted.times(COLD).total,
    )


def _seconds(times: StartTimes) -> dict[str, float]:
    names = ("allocate", "process", "load", "warm_up", "announce", "first_token")
    return {name: getattr(times, name) for name in names}


def _steps(found: Mapping[str, Found]) -> Sequence[str]:
    return list(next(iter(found.values())).steps[NOTHING])


def _grows(values: Mapping[str, float]) -> bool:
    """Whether the values grow in the order of the models, which is that of their GPUs."""
    return all(before < after for before, after in pairwise(values.values()))


def _each(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())


def _draw(found: Mapping[str, Found], path: Path) -> None:
    draw_starts(
        {f"{name}, TP{one.tp}": one.steps for name, one in found.items()},
        {name: {"bytes / PCIe": one.theoretical, **one.loads} for name, one in found.items()},
        {name: one.load_of for name, one in found.items()},
        _TITLE,
        path,
    )
