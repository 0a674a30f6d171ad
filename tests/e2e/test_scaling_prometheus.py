"""A real Prometheus scrapes what a controller has told, and is asked all that the scaling dashboard and alerts ask."""

import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gateway.admin.scaling_metrics import scaling_families
from observability.exposition import Family, exposition
from observability.metrics import declarations as declared
from tests.e2e.prometheus import BINARY, Prometheus
from tests.e2e.stack import eventually
from tests.gateway.admin.scaling_samples import NOW, model, status
from tools.dashboards.objectives import Objectives
from tools.dashboards.rules import alert_rules
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


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = page()
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="penstock-prom-") as name:
        key = Path(name) / "key"
        key.write_text("sk")
        rules = {"alerts.yaml": alert_rules(Objectives(), interval="1s")}
        watching = Prometheus(Path(name) / "prometheus", f"127.0.0.1:{server.server_port}", key, rules)
        try:
            watching.start()
            yield watching
        finally:
            watching.close()
            server.shutdown()
            server.server_close()


def put_in(expr: str) -> str:
    # Nobody waits for a quarter of an hour here: the forecast of now stands for the one of then.
    for name, value in {**PUT_IN, " offset 15m": ""}.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def test_every_panel_has_data(prometheus: Prometheus) -> None:
    empty = {f"{panel.title}: {query.legend}": query for panel in scaling().panels for query in panel.queries}

    def filled() -> bool:
        for name, query in list(empty.items()):
            if prometheus.numbers(put_in(query.expr), instant=query.instant):
                del empty[name]
        return not empty

    try:
        eventually(filled, "every panel has data", 10)
    except AssertionError as error:
        error.add_note("\n".join(f"{name}: {query.expr}" for name, query in empty.items()))
        raise


def test_every_alert_has_something_to_compare(prometheus: Prometheus) -> None:
    empty = {
        alert.name: value
        for alert in scaling_alerts()
        for value in alert.condition.values
        if not prometheus.numbers(value, instant=True)
    }
    assert empty == {}
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}


def test_every_variable_has_values(prometheus: Prometheus) -> None:
    assert prometheus.values_of("model", "penstock_scaling_wanted_replicas") == ["m"]
    assert prometheus.values_of("pool", "penstock_scaling_wanted_replicas") == ["small"]
