"""What keeps a fleet from flapping: windows over needs, bounds of change, and holes in what was observed."""

from collections.abc import Mapping, Sequence
from math import floor

from replicas.controller.memory import Memory, NeededRate, WantedCounts
from replicas.controller.scaling_settings import ModelScaling, PoolScaling

#: Seconds without a decision after which what was needed meanwhile is not known.
HOLE = 60.0
#: Needs are kept as maxima of so many seconds.
BUCKET = 10.0
#: A need that is below this share of the highest in the window has clearly fallen.
CLEARLY = 0.75


def with_need(needs: Sequence[NeededRate], need: NeededRate, reach: float) -> tuple[NeededRate, ...]:
    """Return the needs of the last `reach` seconds, the maximum of each 10 s, with one more."""
    kept = [old for old in needs if need.at - reach <= old.at <= need.at]
    if kept and kept[-1].at // BUCKET == need.at // BUCKET:
        last = kept.pop()
        need = NeededRate(need.at, max(last.rate, need.rate))
    return (*kept, need)


def down_window(scaling: ModelScaling, startup: float, need: float, highest: float, lasting: float | None) -> float:
    """Return for how many seconds capacity is kept after it was needed: `down_seconds` at most.

    To keep a replica for as long as it takes to start another costs at most twice what is best in hindsight. So that is
    enough where the need has clearly fallen below the `highest` of the window, unless a forecast says that it comes
    back: `lasting` is the highest rate that it expects.
    """
    if need > CLEARLY * highest or (lasting is not None and lasting > CLEARLY * highest):
        return scaling.down_seconds
    return min(scaling.down_seconds, max(startup, HOLE))


def kept_need(memory: Memory, now: float, window: float) -> float | None:
    """Return the highest need of the last `window` seconds; None while they are not all known."""
    if memory.since is None or now - memory.since < window:
        return None
    return max((need.rate for need in memory.needs if need.at >= now - window), default=0.0)


def most_now(scaling: ModelScaling, pool: PoolScaling, wanted: Sequence[WantedCounts], now: float, count: int) -> int:
    """Return how many replicas a pool may have now, as it grows at most so fast. `count` is what it has.

    `wanted` reaches back by `up_seconds`.
    """
    base = count
    for old in wanted:
        if old.at <= now and pool.name in old.counts:
            base = min(base, old.counts[pool.name])
    return max(floor(base * scaling.up_factor), base + scaling.up_replicas, pool.min)


def with_wanted(
    wanted: Sequence[WantedCounts], counts: Mapping[str, int], now: float, reach: float
) -> tuple[WantedCounts, ...]:
    """Return what was wanted in the last `reach` seconds, and what is wanted now, one entry a change."""
    kept = [old for old in wanted if old.at <= now]
    while len(kept) > 1 and kept[1].at < now - reach:
        kept.pop(0)
    if kept and kept[-1].counts == counts:
        return tuple(kept)
    return (*kept, WantedCounts(now, dict(counts)))
