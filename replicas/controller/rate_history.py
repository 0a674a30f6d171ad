"""The rates of the last hour or so, as a controller sees them, and what follows from them for the next minutes."""

from collections.abc import Sequence
from math import isfinite, sqrt

import msgspec

#: Seconds that the history reaches back, and between the rates that it keeps.
REACH, SPACING = 3600.0, 10.0
#: Rates of windows one after another that are averaged at most while nothing says that the rate has changed.
WINDOWS = 4
#: Standard deviations of Poisson arrivals beyond which two rates are different.
DIFFERENT = 2.5
#: The same for a growth that is prepared for; there are many of them to look through.
GROWN = 3.0
#: Share of the growths seen that is prepared for, and start-up times that are looked back for them, in seconds at
#: least.
QUANTILE, LOOK_BACK, LEAST_LOOK_BACK = 0.9, 8.0, 900.0
#: Growth is expected of no more than this share of the rate, so that one jump is not followed by the same again.
MOST_GROWTH = 0.5
#: A rate below this share of the one before is a fall, after which what had grown before it says nothing.
FALLEN = 0.8


class RateSample(msgspec.Struct, frozen=True, array_like=True):
    """Requests per second over the `window` seconds that ended at `at`."""

    at: float
    rate: float
    window: float


def with_sample(history: Sequence[RateSample], sample: RateSample) -> tuple[RateSample, ...]:
    """Return the history with a sample after it, which is dropped where it is nonsense or comes too soon.

    Where the clock has gone back, what is later than the sample is forgotten.
    """
    if not (isfinite(sample.rate) and sample.rate >= 0 and sample.window > 0):
        return tuple(history)
    kept = [old for old in history if sample.at - REACH <= old.at <= sample.at]
    if kept and sample.at - kept[-1].at < SPACING:
        return tuple(kept)
    return (*kept, sample)


def steady_rate(history: Sequence[RateSample], now: RateSample) -> float:
    """Return the mean rate of as many windows before now as do not differ from it more than chance explains."""
    mean, seconds = now.rate, max(now.window, 1.0)
    at = now.at
    for _ in range(WINDOWS - 1):
        at -= now.window
        before = _at(history, at, now.window)
        if before is None:
            break
        together = (mean * seconds + before * now.window) / (seconds + now.window)
        spread = sqrt(max(together, 1.0 / now.window) * (1.0 / seconds + 1.0 / now.window))
        if abs(before - mean) > DIFFERENT * spread:
            break
        mean, seconds = together, seconds + now.window
    return mean


def growth(history: Sequence[RateSample], now: RateSample, seconds: float) -> float:
    """Return by how much the rate may grow within `seconds`, as it has lately done; 0 where chance explains it.

    It is the 0.9 quantile of the growths within such a time since the last fall, up to half of the rate.
    """
    if len(history) < 2:
        return 0.0
    since = now.at - max(LOOK_BACK * seconds, LEAST_LOOK_BACK)
    samples = [sample for sample in history if sample.at >= since - seconds]
    highest, start = 0.0, 0
    for index, sample in enumerate(samples):
        noise = GROWN * sqrt(max(highest, 1.0 / sample.window) / sample.window)
        if sample.rate < FALLEN * highest and sample.rate < highest - noise:
            start, highest = index, sample.rate
        highest = max(highest, sample.rate)
    samples = samples[start:]
    growths = []
    before = 0
    for sample in samples:
        while before + 1 < len(samples) and samples[before + 1].at <= sample.at - seconds:
            before += 1
        old = samples[before]
        grown = sample.rate - old.rate
        noise = GROWN * sqrt(max(sample.rate + old.rate, 1.0 / sample.window) / sample.window)
        growths.append(grown if grown > noise else 0.0)
    if not growths:
        return 0.0
    growths.sort()
    likely = growths[min(int(QUANTILE * len(growths)), len(growths) - 1)]
    return min(likely, MOST_GROWTH * now.rate)


def _at(history: Sequence[RateSample], at: float, window: float) -> float | None:
    """Return the rate of the window that ended nearest to `at`; None where there is a hole."""
    nearest: RateSample | None = None
    for sample in reversed(history):
        if nearest is None or abs(sample.at - at) < abs(nearest.at - at):
            nearest = sample
        if sample.at < at:
            break
    return nearest.rate if nearest is not None and abs(nearest.at - at) <= max(window / 2, SPACING) else None
