"""The rates of the last hour or so, as a controller sees them, and what follows from them for the next minutes."""

from collections.abc import Sequence
from math import sqrt

import msgspec

#: Seconds that the history reaches back, and between the rates that it keeps.
REACH, SPACING = 3600.0, 10.0
#: Rates of windows one after another that are averaged at most while nothing says that the rate has changed.
WINDOWS = 4
#: Standard deviations of Poisson arrivals beyond which two rates are different.
DIFFERENT = 3.5
#: The same for a growth that is prepared for; there are many of them to look through.
GROWN = 3.0
#: Start-up times that are looked back for growths, and seconds at least.
LOOK_BACK, LEAST_LOOK_BACK = 8.0, 900.0
#: Growth is expected of no more than this share of the rate, so that one jump is not followed by the same again.
MOST_GROWTH = 0.5
#: A rate below this share of the one before is a fall, after which what had grown before it says nothing.
FALLEN = 0.8


#: An outage: what is left of the rate, after it was steady for so long, within so many seconds; requests that would
#: have come in a window, so that none of them is no chance.
LEFT, STEADY, FALL, ENOUGH = 0.05, 1800.0, 300.0, 20.0
#: It is over with this share of the rate, or with whatever has lasted so long; it is forgotten after a day.
BACK, LASTING, FORGOTTEN = 0.5, 900.0, 86_400.0


class Outage(msgspec.Struct, frozen=True, array_like=True):
    """Since `at` next to none of the `rate` that came before has come; `back_at` is when some came again."""

    at: float
    rate: float
    back_at: float | None = None


class RateSample(msgspec.Struct, frozen=True, array_like=True):
    """Requests per second over the `window` seconds that ended at `at`, and their mean over as many `seconds` as were
    alike.
    """

    at: float
    rate: float
    window: float
    mean: float
    seconds: float


def sampled(history: Sequence[RateSample], at: float, rate: float, window: float) -> RateSample:
    """Return a sample with the mean over as many windows before it as do not differ from it more than chance
    explains.
    """
    mean, seconds, start = rate, window, at
    for _ in range(WINDOWS - 1):
        start -= window
        before = _at(history, start, window)
        if before is None:
            break
        together = (mean * seconds + before * window) / (seconds + window)
        if abs(before - mean) > DIFFERENT * _deviation(together, seconds, window):
            break
        mean, seconds = together, seconds + window
    return RateSample(at, rate, window, mean, seconds)


def with_sample(history: Sequence[RateSample], sample: RateSample) -> tuple[RateSample, ...]:
    """Return the history with a sample after it, which is dropped where it comes too soon.

    Where the clock has gone back, what is later than the sample is forgotten.
    """
    kept = [old for old in history if sample.at - REACH <= old.at <= sample.at]
    if kept and sample.at - kept[-1].at < SPACING:
        return tuple(kept)
    return (*kept, sample)


def growth(history: Sequence[RateSample], now: RateSample, seconds: float, share: float) -> float:
    """Return by how much the rate may grow within `seconds`, as it has lately done; 0 where chance explains it.

    It is the quantile `share` of the growths within such a time since the last fall, up to half of the rate. What more
    than doubled came at once, as a crowd does, and says no more of what follows than a doubling.
    """
    since = now.at - max(LOOK_BACK * seconds, LEAST_LOOK_BACK)
    samples = _since_fall([sample for sample in history if sample.at >= since - seconds])
    growths, before = [], 0
    for sample in samples:
        while before + 1 < len(samples) and samples[before + 1].at <= sample.at - seconds:
            before += 1
        old = samples[before]
        if sample.at < since:
            continue  # what was before it is not known
        noise = GROWN * _deviation((sample.mean + old.mean) / 2, sample.seconds, old.seconds)
        grown = sample.mean - old.mean
        growths.append(min(grown, old.mean) if grown > noise else 0.0)
    if not growths:
        return 0.0
    growths.sort()
    return min(growths[min(int(share * len(growths)), len(growths) - 1)], MOST_GROWTH * now.mean)


def with_outage(outage: Outage | None, history: Sequence[RateSample], now: RateSample) -> Outage | None:
    """Return the outage that has begun, goes on or is being recovered from, None where there is none.

    It begins where next to nothing is left of a rate that was there for half an hour, within some minutes: days and
    weeks do not do that. It is over once half of that rate is back, or some other rate has lasted, or after a day.
    """
    if outage is not None:
        back_at = outage.back_at
        if now.at < outage.at or now.at - outage.at > FORGOTTEN or now.mean >= BACK * outage.rate:
            return None
        if back_at is None and now.mean > LEFT * outage.rate:
            back_at = now.at
        if back_at is not None and now.at - back_at > LASTING:
            return None
        return msgspec.structs.replace(outage, back_at=back_at)
    earlier = [old for old in history if now.at - FALL - STEADY <= old.at <= now.at - FALL]
    if not earlier or earlier[0].at > now.at - FALL - 0.9 * STEADY:
        return None
    least = min(old.mean for old in earlier)
    counted = least * now.window
    return Outage(now.at, earlier[-1].mean) if now.mean < LEFT * least and counted > ENOUGH else None


def returning(outage: Outage, now: RateSample) -> bool:
    """Whether requests come again after an outage: more than those that were left by chance."""
    return outage.back_at is not None or now.mean > LEFT * outage.rate


def _since_fall(samples: Sequence[RateSample]) -> Sequence[RateSample]:
    """Return the samples since the rate has last fallen clearly."""
    highest, start = samples[0] if samples else None, 0
    for place, sample in enumerate(samples):
        if highest is None or sample.mean >= highest.mean:
            highest = sample
        elif sample.mean < FALLEN * highest.mean and highest.mean - sample.mean > GROWN * _deviation(
            highest.mean, sample.seconds, highest.seconds
        ):
            highest, start = sample, place
    return samples[start:]


def _deviation(rate: float, seconds: float, others: float) -> float:
    """The standard deviation of the difference of two rates that were counted over some seconds each."""
    return sqrt(max(rate, 1.0 / max(seconds, others)) * (1.0 / seconds + 1.0 / others))


def _at(history: Sequence[RateSample], at: float, window: float) -> float | None:
    """Return the rate of the window that ended nearest to `at`; None where there is a hole."""
    nearest: RateSample | None = None
    for sample in reversed(history):
        if nearest is None or abs(sample.at - at) < abs(nearest.at - at):
            nearest = sample
        if sample.at < at:
            break
    return nearest.rate if nearest is not None and abs(nearest.at - at) <= max(window / 2, SPACING) else None
