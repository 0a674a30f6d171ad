import msgspec
import pytest

from gateway.scaling import stored_rates
from gateway.scaling.stored_rates import OLD_SECONDS, StoredRates, usable
from replicas.controller.forecast.fit import FitResult
from replicas.controller.forecast.rate_bins import BIN_SECONDS, RateBins
from replicas.controller.snapshot import Forecast

NOW = 1_700_000_000.0


async def test_rates_are_written_once_a_minute_and_read_by_the_next_controller() -> None:
    one, two = StoredRates("m"), StoredRates("m")
    written = [write for second in range(180) for write in one.add(NOW + second, 2.0)]
    assert [write.field for write in written] == ["m"] * 3
    two.restore(written[-1].value)
    assert two._bins == msgspec.json.decode(written[-1].value, type=RateBins)
    # What is older than what is known here is left.
    one.restore(written[0].value)
    assert one._bins.at == NOW + 179
    two.restore(b"{")
    assert two._bins.at == NOW + 120
    await one.fitted()


async def test_a_forecast_is_made_from_two_hours_on_and_goes_when_it_is_old() -> None:
    rates = StoredRates("m")
    for number in range(40):
        rates.add(NOW + number * BIN_SECONDS, 5.0)
    await rates.fitted()
    rates.add(NOW + 40 * BIN_SECONDS, 5.0)
    await rates.fitted()
    forecast = rates.forecast
    assert forecast is not None
    assert forecast.mean[0] == pytest.approx(5.0, abs=0.1)
    assert usable(forecast, forecast.made + OLD_SECONDS) is forecast
    assert usable(forecast, forecast.made + OLD_SECONDS + 1.0) is None
    assert usable(None, NOW) is None


@pytest.mark.parametrize("how", ["raises", "nonsense"])
async def test_a_forecast_that_fails_is_none_and_told(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(bins: RateBins, now: float) -> FitResult:
        if how == "raises":
            raise ZeroDivisionError("nonsense")
        return FitResult(forecast=None, errors={}, dropped={"theta": "it forecast a negative rate", "week": "no week"})

    monkeypatch.setattr(stored_rates, "fit_forecast", fit)
    rates = StoredRates("m")
    rates.forecast = Forecast(made=NOW, step=300.0, mean=[1.0], upper=[1.0], method="last")
    rates.add(NOW, 1.0)
    await rates.fitted()
    assert usable(rates.forecast, NOW) is None
    assert rates.warning.startswith("no forecast could be made")
    assert "no week" not in rates.warning
