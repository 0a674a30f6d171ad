from gateway.admin.metrics.metrics_page import read_scaling_families
from gateway.admin.metrics.scaling_metrics import scaling_families
from gateway.scaling.status import FRESH_SECONDS, ForecastStatus, ScalingStatus
from observability.exposition import exposition
from observability.metrics import controller_declarations as declared
from observability.metrics.metric import Metric
from protos.errors import StoreUnavailable
from tests.gateway.admin.scaling_samples import NOW, model, pool, progress, status
from tests.observability.metrics.parsing import parsed


class Page:
    """The metrics of a status, as Prometheus reads them."""

    def __init__(self, found: ScalingStatus | None, now: float = NOW) -> None:
        self.kinds, self.series = parsed(exposition(scaling_families(now, found)))

    def of(self, metric: Metric, *labels: str) -> float | None:
        return self.series.get((metric.name, frozenset(zip(metric.labels, labels, strict=True))))


def test_a_model_that_grows() -> None:
    page = Page(status())
    for metric, expected in (
        (declared.SCALING_WANTED, 5),
        (declared.SCALING_NEEDED, 4),
        (declared.SCALING_READY, 2),
        (declared.SCALING_STOPPING, 0),
        (declared.SCALING_MIN, 1),
        (declared.SCALING_MAX, 6),
        (declared.SCALING_STARTUP, 6.5),
        (declared.SCALING_LAUNCHER_FAILING, 0),
        (declared.SCALING_LAUNCHER_ERRORS, 0),
    ):
        assert page.of(metric, "m", "small") == expected, metric.name
    steps = {step: page.of(declared.SCALING_STARTING, "m", "small", step) for step in ("allocate", "load", "warm_up")}
    assert steps == {"allocate": 0, "load": 2, "warm_up": 1}
    assert page.of(declared.SCALING_START_STEP, "m", "small", "process") == 4
    assert page.of(declared.SCALING_DEMAND, "m") == 7.5
    assert page.of(declared.SCALING_SLO, "m", "ttft") == 1.25
    assert page.of(declared.SCALING_COST, "m") == 12.5
    assert page.of(declared.SCALING_DECISIONS, "m", "up") == 3
    assert page.of(declared.SCALING_DECISIONS, "m", "down") == 0
    assert page.of(declared.SCALING_ACTS, "m") == 1
    assert (page.of(declared.SCALING_CONTROLLER_UP), page.of(declared.SCALING_CONTROLLER_SINCE)) == (1, NOW - 100.0)
    assert page.kinds[declared.SCALING_DECISIONS.name] == "counter"


def test_a_model_at_zero_is_there_and_what_is_not_known_is_not() -> None:
    page = Page(status())
    assert page.of(declared.SCALING_WANTED, "z", "zero") == 0
    assert page.of(declared.SCALING_STARTING, "z", "zero", "process") == 0
    assert page.of(declared.SCALING_COST, "z") is None
    assert page.of(declared.SCALING_DEMAND, "z") is None


def test_the_forecast_is_of_moments_that_it_reaches() -> None:
    # Made 90 s ago: in five minutes it is the value of 390 s after that.
    page = Page(status())
    assert page.of(declared.SCALING_FORECAST, "m", "5m", "mean") == 6
    assert page.of(declared.SCALING_FORECAST, "m", "15m", "mean") == 16
    assert page.of(declared.SCALING_FORECAST, "m", "15m", "upper") == 9
    short = ForecastStatus(made=NOW, step=60.0, mean=[1.0] * 6, upper=[2.0] * 6, method="theta")
    page = Page(status(models=[model(forecast=short)]))
    assert page.of(declared.SCALING_FORECAST, "m", "5m", "mean") == 1
    assert page.of(declared.SCALING_FORECAST, "m", "15m", "mean") is None
    nonsense = ForecastStatus(made=NOW + 1e6, step=0.0, mean=[1.0], upper=[], method="?")
    assert Page(status(models=[model(forecast=nonsense)])).of(declared.SCALING_FORECAST, "m", "5m", "mean") is None


def test_paused_and_advised_models_are_not_acted_on() -> None:
    assert Page(status(models=[model(paused=True)])).of(declared.SCALING_ACTS, "m") == 0
    assert Page(status(models=[model(mode="advise")])).of(declared.SCALING_ACTS, "m") == 0


def test_a_launcher_that_fails() -> None:
    found = pool(problem="it hangs", launcher_errors=3, starting=[progress(9, "\n")])
    page = Page(status(models=[model(pools=[found])]))
    assert page.of(declared.SCALING_LAUNCHER_FAILING, "m", "small") == 1
    assert page.of(declared.SCALING_LAUNCHER_ERRORS, "m", "small") == 3


def test_an_old_status_is_none() -> None:
    for page in (Page(None), Page(status(at=NOW - FRESH_SECONDS - 1))):
        assert page.series == {(declared.SCALING_CONTROLLER_UP.name, frozenset()): 0}


async def test_nothing_is_shown_where_nothing_scales_or_the_store_is_away() -> None:
    async def away() -> tuple[float, ScalingStatus | None]:
        raise StoreUnavailable

    async def there() -> tuple[float, ScalingStatus | None]:
        return NOW, status()

    assert await read_scaling_families(None) == []
    assert await read_scaling_families(away) == []
    assert len(await read_scaling_families(there)) > 10
