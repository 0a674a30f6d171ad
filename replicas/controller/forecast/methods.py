"""Methods of forecasting: each makes the next rates of those so far, or says that it cannot.

The seasonal ones take what a day or a week has had at that time. What they and the smoothing are is in Hyndman and
Athanasopoulos, "Forecasting: Principles and Practice" (3rd edition, chapters 5 and 8).
"""

from collections.abc import Callable, Mapping, Sequence

from replicas.controller.forecast.rate_bins import BIN_SECONDS

DAY, WEEK = int(86_400 / BIN_SECONDS), int(7 * 86_400 / BIN_SECONDS)
#: Rates that smoothing looks back on; what is before them counts for nothing with these weights.
_SMOOTHED = 24
#: Seasons whose changes are averaged.
_SEASONS = 7

#: Takes the rates so far, of which the last is known, and the number of rates to foresee; None: it cannot.
Method = Callable[[Sequence[float | None], int], list[float] | None]


def _last(rates: Sequence[float | None], ahead: int) -> list[float] | None:
    return None if rates[-1] is None else [rates[-1]] * ahead


def _smoothed(weight: float) -> Method:
    """Simple exponential smoothing, the newest rate with `weight`."""

    def method(rates: Sequence[float | None], ahead: int) -> list[float] | None:
        level: float | None = None
        for rate in rates[-_SMOOTHED:]:
            if rate is not None:
                level = rate if level is None else level + weight * (rate - level)
        return None if level is None else [level] * ahead

    return method


def _trend(weight: float, slope_weight: float, damping: float) -> Method:
    """Holt's linear trend, damped."""

    def method(rates: Sequence[float | None], ahead: int) -> list[float] | None:
        known = [rate for rate in rates[-_SMOOTHED:] if rate is not None]
        if len(known) < 3:
            return None
        level, slope = known[0], 0.0
        for rate in known[1:]:
            before = level
            level += damping * slope + weight * (rate - level - damping * slope)
            slope = slope_weight * (level - before) + (1.0 - slope_weight) * damping * slope
        found, factor = [], 0.0
        for _ in range(ahead):
            factor = damping * (1.0 + factor)
            found.append(max(0.0, level + factor * slope))
        return found

    return method


def _season(period: int) -> Method:
    """What was a season ago."""

    def method(rates: Sequence[float | None], ahead: int) -> list[float] | None:
        if len(rates) < period:
            return None
        found = [rates[len(rates) - period + step] for step in range(ahead)]
        return None if any(rate is None for rate in found) else [rate for rate in found if rate is not None]

    return method


def _season_change(period: int) -> Method:
    """The smoothed level, with the changes that earlier seasons have had from this time on."""
    smoothed = _smoothed(0.7)

    def method(rates: Sequence[float | None], ahead: int) -> list[float] | None:
        level = smoothed(rates, ahead)
        if level is None:
            return None
        changes: list[list[float]] = [[] for _ in range(ahead)]
        for season in range(1, _SEASONS + 1):
            place = len(rates) - 1 - season * period
            if place < _SMOOTHED:
                break
            before = smoothed(rates[place + 1 - _SMOOTHED : place + 1], 1)
            for step in range(ahead):
                later = rates[place + 1 + step]
                if before is not None and later is not None:
                    changes[step].append(later - before[0])
        if not all(changes):
            return None
        return [max(0.0, now + sum(known) / len(known)) for now, known in zip(level, changes, strict=True)]

    return method


#: The methods by name, the plainer ones first: of equally good ones the first is taken.
METHODS: Mapping[str, Method] = {
    "last rate": _last,
    "smoothed": _smoothed(0.7),
    "strongly smoothed": _smoothed(0.4),
    "damped trend": _trend(0.8, 0.3, 0.9),
    "a day ago": _season(DAY),
    "a week ago": _season(WEEK),
    "change of earlier days": _season_change(DAY),
    "change of earlier weeks": _season_change(WEEK),
}
