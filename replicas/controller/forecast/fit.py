"""The best forecast of a history: methods are compared by what they would have said, and bounded by their errors.

It takes some tens of milliseconds, so callers run it in a thread, every few minutes.
"""

from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from replicas.controller.forecast.methods import METHODS, Method
from replicas.controller.forecast.rate_bins import BIN_SECONDS, RateBins, complete
from replicas.controller.needed_rate import COVERED
from replicas.controller.snapshot import Forecast

#: Bins ahead: 15 minutes, and one more as the first has begun already.
AHEAD = 4
#: Times at which methods are compared: those of the last day and a half, the latest first.
ORIGINS = 432
#: Comparisons that a method must have had, and bins of a history before anything is forecast.
LEAST_COMPARED, LEAST_BINS = 12, 24
#: A forecast beyond this many times the highest rate ever seen is nonsense.
NONSENSE = 3.0
#: A method must be better than a plainer one by this share.
_BETTER = 0.02


class FitResult(msgspec.Struct, frozen=True, kw_only=True):
    """A forecast, or None. `errors` are mean absolute errors relative to the mean rate, `dropped` why methods are not
    used.
    """

    forecast: Forecast | None
    errors: Mapping[str, float]
    dropped: Mapping[str, str]


def fit_forecast(bins: RateBins, now: float, methods: Mapping[str, Method] = METHODS) -> FitResult:
    """Return the forecast from `now` on of the method that has lately been best; every failure of a method is told."""
    rates = complete(bins)
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    if len(rates) < LEAST_BINS or rates[-1] is None:
        why = "there are fewer than two hours of history" if len(rates) < LEAST_BINS else "the latest rates are missing"
        return FitResult(forecast=None, errors={}, dropped=dict.fromkeys(methods, why))
    if not bins.at <= now < (bins.last + 2) * BIN_SECONDS:
        return FitResult(forecast=None, errors={}, dropped=dict.fromkeys(methods, "the history is not of now"))
    errors: dict[str, float] = {}
    dropped: dict[str, str] = {}
    best: tuple[str, list[float], list[list[float]]] | None = None
    for name, method in methods.items():
        try:
            found = method(rates, AHEAD)
            problem = _problem(found, highest)
            shortfalls, error = _rolling(method, rates) if not problem else ([], 0.0)
        except Exception as error_raised:  # whatever a method does, the others are asked
            dropped[name] = f"it failed: {error_raised!r}"
            continue
        if problem or found is None:
            dropped[name] = problem
        elif len(shortfalls[0]) < LEAST_COMPARED:
            dropped[name] = "it could be compared too seldom"
        else:
            errors[name] = error
            if best is None or error < (1.0 - _BETTER) * errors[best[0]]:
                best = name, found, shortfalls
    if best is None:
        return FitResult(forecast=None, errors=errors, dropped=dropped)
    name, mean, shortfalls = best
    upper = [value + max(0.0, _quantile(short, COVERED)) for value, short in zip(mean, shortfalls, strict=True)]
    forecast = Forecast(made=bins.last * BIN_SECONDS, step=BIN_SECONDS, mean=mean, upper=upper, method=name)
    return FitResult(forecast=forecast, errors=errors, dropped=dropped)


def _problem(found: Sequence[float] | None, highest: float) -> str:
    """Say why a method's forecast is not used; empty: it may be."""
    if found is None:
        return "there is too little history for it"
    if len(found) != AHEAD or not all(isfinite(value) for value in found):
        return "it forecast what is no number"
    if min(found) < 0:
        return "it forecast a negative rate"
    if max(found) > NONSENSE * highest + 1.0:
        return f"it forecast {max(found):.0f} requests/s, and there were never more than {highest:.0f}"
    return ""


def _rolling(method: Method, rates: Sequence[float | None]) -> tuple[list[list[float]], float]:
    """Return by how much rates were above what was forecast, for each bin ahead, and the mean relative error."""
    shortfalls: list[list[float]] = [[] for _ in range(AHEAD)]
    missed = seen = 0.0
    for origin in range(max(2, len(rates) - ORIGINS), len(rates) - AHEAD + 1):
        if rates[origin - 1] is None:
            continue
        said = method(rates[:origin], AHEAD)
        if said is None:
            continue
        for step, (expected, actual) in enumerate(zip(said, rates[origin : origin + AHEAD], strict=True)):
            if actual is not None:
                shortfalls[step].append(actual - expected)
                missed += abs(actual - expected)
                seen += actual
    return shortfalls, missed / seen if seen else 0.0


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
