"""A real Prometheus scrapes what a controller has told, and is asked all that the scaling dashboard and alerts ask."""

from collections.abc import Iterator

import pytest

from gateway.admin.metrics.scaling_metrics import scaling_families
from observability.exposition import Family, exposition
from observability.metrics import declarations as declared
from tests.e2e.prometheus import BINARY, Prometheus, all_compare, all_have_data, watched
from tests.gateway.admin.scaling_samples import NOW, model, status
from tools.dashboards.scaling_alerts import scaling_alerts
from tools.dashboards.scaling_dashboard import scaling

pytestmark = pytest.mark.skipif(BINARY is None, reason="prometheus is not installed (Debian: prometheus)")
PUT_IN = {"$__rate_interval": "15s", "$model": ".*", "$pool": ".*"}


def page() -> bytes:
    """What the admin API shows of a model that grows, and the workers of its requests."""
    of_workers = [
        Family(metric.name, metric.kind, metric.help) for metric in (declared.MODEL_IN_FLIGHT, declared.QUEUE_DEPTH)
    ]
    for family in of_workers:
        family.add(3, model="m")
    found = status(models=[model(budget_per_hour=20.0)])
    return exposition([*scaling_families(NOW, found), *of_workers]).encode()


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    with watched(page) as watching:
        yield watching


def put_in(expr: str) -> str:
    # Nobody waits for a quarter of an hour here: the forecast of now stands for the one of then.
    for name, value in {**PUT_IN, " offset 15m": ""}.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def test_every_panel_has_data(prometheus: Prometheus) -> None:
    all_have_data(prometheus, scaling(), put_in)


def test_every_alert_has_something_to_compare(prometheus: Prometheus) -> None:
    all_compare(prometheus, scaling_alerts())


def test_every_variable_has_values(prometheus: Prometheus) -> None:
    prometheus.offers("model", "penstock_scaling_wanted_replicas", {"m"})
    prometheus.offers("pool", "penstock_scaling_wanted_replicas", {"small"})
