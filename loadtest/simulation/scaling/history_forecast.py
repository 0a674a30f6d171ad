"""The forecasts that a controller is given: fitted to what was observed, and to a load's history before its start."""

from typing import Final

from loadtest.simulation.scaling.scaling_load import RateCurve
from replicas.controller.forecast.fit import fit_forecast
from replicas.controller.forecast.rate_bins import BIN_SECONDS, MOST_BINS, RateBins, with_rate
from replicas.controller.snapshot import Forecast

#: Seconds between fits. A forecast reaches further.
REFIT_SECONDS: Final = 600.0


class HistoryForecast:
    """Keeps the rates, and fits them anew now and then."""

    def __init__(self, history: RateCurve | None) -> None:
        self._bins = _bins(history) if history else RateBins()
        self._forecast: Forecast | None = None
        self._fitted = float("-inf")

    def __call__(self, now: float, rate: float) -> Forecast | None:
        """Note the observed rate, and return the latest forecast."""
        self._bins = with_rate(self._bins, now, rate)
        if now - self._fitted >= REFIT_SECONDS:
            self._fitted = now
            self._forecast = fit_forecast(self._bins, now).forecast
        return self._forecast


def _bins(history: RateCurve) -> RateBins:
    """Return the last bins of a history that ends at time 0."""
    count = min(MOST_BINS - 1, int(history.end // BIN_SECONDS))
    values = [round(history.at(history.end - (count - at - 0.5) * BIN_SECONDS), 3) for at in range(count)]
    return RateBins(first=-count, values=tuple(values), count=1, at=-BIN_SECONDS / 2)
