"""`python -m tools.forecasts RATES.csv`: how far methods are from the mean rate of the next 15 minutes.

Each is asked every two hours from the eighth day on. statsforecast is compared where it is installed.
"""

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from replicas.controller.forecast.fit import fit_forecast
from replicas.controller.forecast.methods import DAY, METHODS, WEEK
from replicas.controller.forecast.rate_bins import BIN_SECONDS, RateBins

#: Bins of the quarter of an hour, and between questions.
AHEAD, EVERY = 3, 24

Foresee = Callable[[Sequence[float]], Sequence[float] | None]


def read_bins(path: Path) -> list[float]:
    """Return rates by bins of five minutes, from a CSV of start_s and requests_per_s in windows of equal length."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [(float(row["start_s"]), float(row["requests_per_s"])) for row in csv.DictReader(lines)]
    bins: list[float] = []
    for start, rate in rows:
        while len(bins) * BIN_SECONDS < start:
            bins.append(bins[-1] if bins else rate)
        bins.append(rate)
    return bins


def of_library() -> dict[str, Foresee]:
    """Return statsforecast's methods, each fitted to the last week; none where it is not installed."""
    try:
        import numpy as np
        from statsforecast import models
    except ImportError:
        return {}

    def asked(model: Callable[[], object]) -> Foresee:
        def foresee(rates: Sequence[float]) -> Sequence[float]:
            found = model().forecast(np.array(rates[-WEEK:]), h=AHEAD)["mean"]  # type: ignore[attr-defined]
            return [float(value) for value in found]

        return foresee

    return {
        "AutoETS": asked(lambda: models.AutoETS(season_length=1)),
        "AutoARIMA": asked(lambda: models.AutoARIMA(season_length=1)),
        "AutoTheta, by day": asked(lambda: models.AutoTheta(season_length=DAY)),
        "MSTL with AutoETS, by day": asked(
            lambda: models.MSTL([DAY], trend_forecaster=models.AutoETS(season_length=1, model="ZZN"))
        ),
    }


def chosen(rates: Sequence[float]) -> Sequence[float] | None:
    """Return what the controller would go by."""
    bins = RateBins(values=(*rates, rates[-1]), count=1, at=len(rates) * BIN_SECONDS)
    forecast = fit_forecast(bins, bins.at).forecast
    return None if forecast is None else forecast.mean


def main() -> None:
    """Print the mean absolute error of each method relative to the mean rate, and its milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m tools.forecasts", description=__doc__)
    parser.add_argument("rates", type=Path, metavar="RATES.csv")
    rates = read_bins(parser.parse_args().rates)
    own: dict[str, Foresee] = {
        name: lambda seen, method=method: method(seen, AHEAD)  # type: ignore[misc]
        for name, method in METHODS.items()
    }
    for name, foresee in {**own, "chosen by rolling error": chosen, **of_library()}.items():
        missed = seen = seconds = 0.0
        asked = 0
        for origin in range(7 * DAY + EVERY, len(rates) - AHEAD, EVERY):
            began = time.perf_counter()
            found = foresee(rates[:origin])
            seconds += time.perf_counter() - began
            if found is None:
                continue
            actual = sum(rates[origin : origin + AHEAD])
            missed += abs(sum(found[:AHEAD]) - actual)
            seen += actual
            asked += 1
        if asked:
            print(f"{name:28} {missed / seen:7.4f} {1e3 * seconds / asked:9.1f} ms", flush=True)


if __name__ == "__main__":
    main()
