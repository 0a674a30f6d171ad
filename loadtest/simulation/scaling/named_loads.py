"""Loads that need no file: a published ramp, and shapes that scalers fail at."""

import random
from collections.abc import Callable, Mapping
from math import cos, pi
from typing import Final

from loadtest.simulation.scaling.load_lengths import equal_lengths
from loadtest.simulation.scaling.scaling_load import RateCurve, ScalingLoad
from replicas.controller.scaling_settings import Slo

_DAY: Final = 86_400.0
_CHAT: Final = equal_lengths(1000, 250)

#: llm-d's published ramp: requests per second, and seconds of each.
LLMD_RAMP: Final = ((2.0, 330.0), (4.0, 360.0), (6.0, 360.0), (8.0, 360.0), (10.0, 360.0), (4.0, 360.0), (1.0, 300.0))
#: Windows of the drawn curves, and the standard deviation of a window's rate over its mean.
_WINDOW, _NOISE = 600.0, 0.06


def llmd_ramp() -> ScalingLoad:
    """Return llm-d's ramp: 4,000 tokens in, 1,000 out; TTFT 3 s, TPOT 100 ms."""
    slo = Slo(ttft=3.0, ttft_per_token=0.0, tpot=0.1)
    return ScalingLoad(name="llmd-ramp", curve=_steps(LLMD_RAMP), lengths=equal_lengths(4000, 1000), slo=slo)


def flash_crowd() -> ScalingLoad:
    """Return 10 times the rate within 30 s, for 20 minutes; half an hour before and after it, of a peak of 1."""
    up = [(0.1 + 0.9 * (at + 0.5) / 10, 3.0) for at in range(10)]
    curve = _steps([(0.1, 1800.0), *up, (1.0, 1200.0), (0.1, 1800.0)])
    return ScalingLoad(name="flash-crowd", curve=curve, lengths=_CHAT)


def diurnal() -> ScalingLoad:
    """Return a week of days and nights with a quiet weekend, of a peak about 1, after three such weeks."""
    curve = _weeks(4, seed=1)
    return _after(curve, "diurnal", 21 * _DAY, 28 * _DAY)


def holiday() -> ScalingLoad:
    """Return a day with a quarter of the load that three weeks before it promise."""
    return _unexpected("holiday", 0.25)


def holiday_ends() -> ScalingLoad:
    """Return a day with four times the load that three weeks before it promise."""
    return _unexpected("holiday-ends", 4.0)


def _unexpected(name: str, factor: float) -> ScalingLoad:
    curve = _weeks(4, seed=2)
    # The fourth week begins with a weekday. A whole load is a peak of 1.
    start, end = 21 * _DAY, 22 * _DAY
    scale = min(1.0, 1.0 / factor)
    rates = [
        rate * scale * (factor if start <= at < end else 1.0)
        for at, rate in zip(curve.starts, curve.rates, strict=True)
    ]
    return _after(RateCurve(curve.starts, rates, curve.end, smooth=True), name, start, end)


def _after(curve: RateCurve, name: str, start: float, end: float) -> ScalingLoad:
    return ScalingLoad(name=name, curve=curve.cut(start, end), lengths=_CHAT, history=curve.cut(0.0, start))


def _weeks(count: int, seed: int) -> RateCurve:
    """Draw weeks of days and nights: 0.2 at four in the morning, 1 in the afternoon; 0.6 of that on weekends."""
    rng = random.Random(seed)
    starts, rates = [], []
    for window in range(round(count * 7 * _DAY / _WINDOW)):
        at = window * _WINDOW
        hour = at % _DAY / 3600
        day = 0.6 - 0.4 * cos((hour - 4) / 24 * 2 * pi)
        weekend = 0.6 if int(at / _DAY) % 7 >= 5 else 1.0
        starts.append(at)
        rates.append(day * weekend * max(0.0, rng.gauss(1.0, _NOISE)))
    return RateCurve(starts, rates, count * 7 * _DAY, smooth=True)


def _steps(parts: "tuple[tuple[float, float], ...] | list[tuple[float, float]]") -> RateCurve:
    starts, now = [], 0.0
    for _, seconds in parts:
        starts.append(now)
        now += seconds
    return RateCurve(starts, [rate for rate, _ in parts], now)


#: By name. The rates of all but the ramp are relative to a peak of about 1, theirs or that of the days before them.
NAMED: Final[Mapping[str, Callable[[], ScalingLoad]]] = {
    "llmd-ramp": llmd_ramp,
    "flash-crowd": flash_crowd,
    "holiday": holiday,
    "holiday-ends": holiday_ends,
    "diurnal": diurnal,
}
