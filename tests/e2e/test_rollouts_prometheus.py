"""A real Prometheus scrapes what is told of rollouts and drift, and is asked all that dashboards and alerts ask."""

import time
from collections.abc import Iterator

import pytest

from gateway.admin.metrics.drift_metrics import drift_families
from gateway.admin.metrics.rollout_metrics import rollout_families
from gateway.rollouts.drift.drift_view import DriftModelView, DriftView, HistogramView, SubjectView, WindowView
from gateway.rollouts.rollout_records import Records
from gateway.rollouts.shadow.shadow_sums import ShadowReport
from observability.exposition import Family, exposition
from observability.metrics import controller_declarations as controller
from observability.metrics import declarations as declared
from routing.rollouts.rollout import Told, Totals
from tests.e2e.prometheus import BINARY, Prometheus, all_compare, all_have_data, watched
from tests.gateway.admin.rollout_samples import rollout
from tests.gateway.rollouts.shadow.test_shadow_gate import report
from tools.dashboards.rollout_alerts import rollout_alerts
from tools.dashboards.rollouts_dashboard import rollouts
from tools.dashboards.routing_dashboard import routing

pytestmark = pytest.mark.skipif(BINARY is None, reason="prometheus is not installed (Debian: prometheus)")
PUT_IN = {"$__rate_interval": "15s", "$__range": "60s", "$model": ".*"}
ONE = rollout(verdict="as_good")


def page() -> bytes:
    """What the admin API shows of a rollout under way, its shadow, and a model that drifts."""
    records = Records(
        now=time.time(),
        orders={},
        rollouts={ONE.model: ONE},
        splits={},
        taken={},
        totals={ONE.model: Totals(promoted=2, reported=1, rolled_back={"worse": 1})},
        told=Told(at=time.time(), controller="host-7", lost=1),
        unreadable={},
        foreign=False,
    )
    shadow: ShadowReport = report(60, 54, failed=1, bound=3)
    window = WindowView(hours=1, requests=500, distance=0.2, threshold=0.1, drifted=True)
    histogram = HistogramView(of="prompt_tokens", measure="ks", windows=[window], drifted=True)
    subject = SubjectView(side="input", since=0.0, until=1.0, state="compared", histograms=[histogram])
    drift = DriftView(at=0.0, models=[DriftModelView(model=ONE.model, false_alarms=1e-4, subjects=[subject])])
    # Of workers.
    counted = [
        Family(metric.name, metric.kind, metric.help) for metric in (declared.MODEL_IN_FLIGHT, declared.VERSION_MISSED)
    ]
    for family in counted:
        family.add(3, model=ONE.model)
    return exposition([*rollout_families(records, [shadow]), *drift_families(drift), *counted]).encode()


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    with watched(page) as watching:
        yield watching


def put_in(expr: str) -> str:
    for name, value in PUT_IN.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def test_every_panel_has_data(prometheus: Prometheus) -> None:
    all_have_data(prometheus, rollouts(), put_in)
    all_have_data(prometheus, routing(), put_in, metric=declared.VERSION_MISSED.name)


def test_every_alert_has_something_to_compare(prometheus: Prometheus) -> None:
    all_compare(prometheus, rollout_alerts())


def test_every_variable_has_values(prometheus: Prometheus) -> None:
    prometheus.offers("model", declared.MODEL_IN_FLIGHT.name, {ONE.model})


def test_copies_are_told_by_what_came_of_them(prometheus: Prometheus) -> None:
    outcomes = {"same", "alike", "different", "failed", "away", "bound", "full", "busy"}
    prometheus.offers("outcome", controller.ROLLOUT_COPIES.name, outcomes)
