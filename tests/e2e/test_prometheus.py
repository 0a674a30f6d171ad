"""A real Prometheus scrapes a gateway under load, and is asked everything that dashboards and rules ask."""

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.prometheus import BINARY, Prometheus, all_have_data
from tests.e2e.raw import ask, chat
from tests.e2e.stack import MODEL, Stack, eventually
from tests.e2e.test_admin import admin, admin_key, up
from tests.ports import free_port
from tests.reshaping import GROUP, processes
from tools.dashboards import rollouts_dashboard, scaling_dashboard
from tools.dashboards.dashboard import Dashboard
from tools.dashboards.dashboard_files import all_dashboards
from tools.dashboards.objectives import Objectives
from tools.dashboards.rollout_alerts import rollout_alerts
from tools.dashboards.rules import alert_rules, all_alerts, recording_rules
from tools.dashboards.scaling_alerts import scaling_alerts

pytestmark = pytest.mark.skipif(BINARY is None, reason="prometheus is not installed (Debian: prometheus)")

#: Nothing scales here, which test_scaling_prometheus.py is for, and no model goes by version, which
#: test_rollouts_prometheus.py is for.
ELSEWHERE = (scaling_dashboard.UID, rollouts_dashboard.UID)
DASHBOARDS = [one for one in all_dashboards(Objectives()) if one.uid not in ELSEWHERE]
OF_VERSIONS = "penstock_version_missed_total"
OBJECTIVES = Objectives()
#: What Grafana would put in.
PUT_IN = {"$__rate_interval": "15s", "$__range": "60s", "$model": ".*", "$pool": ".*", "$tenant": ".*"}
#: Seconds of load before the first question: enough scrapes for rates of each.
LOAD_SECONDS = 8.0

CONFIG = """\
listen: {{host: 127.0.0.1, port: {port}, workers: 2, grace_seconds: 0, drain_seconds: 1}}
admin: {{port: {admin}}}
state: ./state
store: {{url: embedded}}
models:
  - name: {model}
    tokenizer: mistral-tekken
    context: 32768
    price: {{input: 1, cached_input: 0.5, output: 2}}
    reshape: {{mode: advise}}
    pools:
      - {{name: group, engine: simulated, replicas: {group}}}
      - {{name: wide, shape: {{tp: 4}}, engine: simulated, replicas: 1, simulated: {{pace_ms: 2}}}}
      - {{name: narrow, shape: {{tp: 2}}, engine: simulated, replicas: 2, simulated: {{pace_ms: 2}}}}
tenants:
  - {{name: acme, tier: gold, limits: {{rpm: 100000}}}}
  - {{name: lab, tier: bronze, limits: {{rpm: 3}}}}
  - {{name: school, tier: silver, safety: strict}}
  - {{name: spender, limits: {{budget: {{usd: 0.0001, period: day}}}}, safety: open}}
safety:
  input: [{{filter: pii, action: flag}}]
  output: [{{filter: blocked, action: flag}}]
  filters:
    - {{name: blocked, terms: {{terms: [forbidden, the, a, and]}}}}
    - {{name: service, http: {{url: "http://127.0.0.1:{closed}/v1/moderations", timeout_seconds: 1}}}}
  policies:
    - {{name: strict, input: [blocked], output: [blocked]}}
    - {{name: open, input: [service], on_failure: fail_open}}
"""


class Load:
    """Requests of every kind, again and again, until it is closed. What they answer is not looked at."""

    def __init__(self, stack: Stack, keys: dict[str, str]) -> None:
        self._stack = stack
        self._keys = keys
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(3)]
        self._numbers = itertools.count()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        mine = self._rounds()[number]
        while not self._over.wait(0.05):
            with contextlib.suppress(OSError, http.client.HTTPException):
                for request in mine:
                    request()

    def _ask(self, tenant: str, *, timeout: str = "", **fields: Any) -> None:
        headers = {"Authorization": f"Bearer {self._keys[tenant]}", "x-request-timeout": timeout}
        ask(self._stack, chat(**fields), headers=headers)

    def _stream(self, content: str) -> None:
        self._ask("acme", content=content, stream=True, max_tokens=60, ignore_eos=True)

    def _rounds(self) -> list[list[Any]]:
        same = "What is a penstock? " * 60
        return [
            [
                lambda: self._stream(same),
                lambda: self._ask("acme", max_tokens=4, content="write to someone@example.com"),
            ],
            [
                lambda: self._stream(f"{next(self._numbers)} {same}"),
                lambda: self._ask("acme", max_tokens=8),
                lambda: self._ask("acme", max_tokens=0),
                lambda: self._ask("acme", timeout="20ms", max_tokens=400, ignore_eos=True),
            ],
            [
                lambda: self._ask("school", max_tokens=40, content="forbidden"),
                lambda: self._ask("school", max_tokens=200, ignore_eos=True),
                lambda: self._ask("lab", max_tokens=4),
                lambda: self._ask("spender", max_tokens=50, ignore_eos=True),
                lambda: self._ask("nobody", max_tokens=1),
            ],
        ]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-prom-", ignore_cleanup_errors=True) as name,
        tempfile.TemporaryDirectory(prefix="penstock-group-", ignore_cleanup_errors=True) as group,
        processes(Path(group), 2) as members,
    ):
        addresses = json.dumps([member.address for member in members])
        ports = {"port": free_port(), "admin": free_port(), "closed": free_port()}
        made = Stack(Path(name), CONFIG.format(**ports, model=MODEL, group=addresses))
        try:
            made.start()
            eventually(lambda: up(made), "the admin API is up")
            eventually(lambda: shaped(made, [1, 1]), "the controller of shapes sees the group")
            yield made
        finally:
            made.close()


def shaped(stack: Stack, widths: list[int]) -> bool:
    """Whether the host group has this shape, and may be changed."""
    (model,) = json.loads(admin(stack, "GET", "/admin/reshape")[2])["models"]
    return any((one["shape"], one["held"], one["problem"]) == (widths, "", "") for one in model["groups"])


def reshape(stack: Stack, widths: list[int]) -> None:
    body = {"model": MODEL, "group": GROUP, "shape": widths}
    status, _, said = admin(stack, "POST", "/admin/reshape/apply", body)
    assert status == 200, said
    eventually(lambda: shaped(stack, widths), f"the group is {widths}")


@pytest.fixture(scope="module")
def prometheus(stack: Stack) -> Iterator[Prometheus]:
    """One that has watched the gateway work, change shapes, lose a pool and get it back; the work goes on."""
    keys = {"nobody": "sk-penstock-nobody"}
    for tenant in ("acme", "lab", "school", "spender"):
        made = admin(stack, "POST", "/admin/keys", {"name": "test", "tenant": tenant})
        keys[tenant] = json.loads(made[2])["key"]
    rules = {
        "recording.yaml": recording_rules(OBJECTIVES, interval="1s"),
        "alerts.yaml": alert_rules(OBJECTIVES, interval="1s"),
    }
    key_file = stack.state_dir / "admin.key"
    assert key_file.read_text().strip() == admin_key(stack)
    watching = Prometheus(stack.folder / "prometheus", f"127.0.0.1:{stack.admin_port}", key_file, rules)
    load = Load(stack, keys)
    try:
        watching.start()
        time.sleep(LOAD_SECONDS / 2)
        reshape(stack, [2])
        # Only what grows from one scrape to the next is an increase.
        done = 'penstock_reshape_changes_total{outcome="done"}'
        eventually(lambda: watching.numbers(done, instant=True) == [1.0], "the change is told")
        reshape(stack, [1, 1])
        for pid in stack.pids("gateway.cli.main replica")[:1]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(LOAD_SECONDS / 2)
        yield watching
    finally:
        load.close()
        watching.close()


def put_in(expr: str) -> str:
    for name, value in PUT_IN.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: str(one.uid))
def test_every_panel_has_data(prometheus: Prometheus, dashboard: Dashboard) -> None:
    all_have_data(prometheus, dashboard, put_in, without=OF_VERSIONS)


def test_the_load_was_of_every_kind(prometheus: Prometheus) -> None:
    for label, metric, wanted in (
        ("outcome", "penstock_requests_total", "ok cut filtered invalid denied limited timeout"),
        ("tenant", "penstock_requests_total", "acme lab school spender"),
        ("action", "penstock_filter_verdicts_total", "flag block failed"),
    ):

        def has_all(label: str = label, metric: str = metric, wanted: str = wanted) -> bool:
            return set(wanted.split()) <= set(prometheus.values_of(label, metric))

        eventually(has_all, f"{metric} by {label} is {wanted}")


def test_every_variable_has_values(prometheus: Prometheus) -> None:
    for variable in {variable for dashboard in DASHBOARDS for variable in dashboard.variables}:
        match = re.fullmatch(r"label_values\((.*), (\w+)\)", put_in(variable.query))
        assert match is not None
        assert prometheus.values_of(match[2], match[1]), variable


def test_every_rule_is_evaluated(prometheus: Prometheus) -> None:
    rules: list[Any] = []

    def evaluated() -> bool:
        rules[:] = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return {rule["health"] for rule in rules} == {"ok"}

    eventually(evaluated, "every rule is evaluated")
    recorded = {name for objective in OBJECTIVES.all for name, _ in objective.recorded()}
    assert {rule["name"] for rule in rules} == recorded | {alert.full_name for alert in all_alerts(OBJECTIVES)}
    for name in sorted(recorded):
        eventually(lambda name=name: bool(prometheus.numbers(name, instant=True)), f"{name} is recorded")  # type: ignore[misc]


def test_every_alert_has_something_to_compare(prometheus: Prometheus) -> None:
    elsewhere = {one.name for one in (*scaling_alerts(), *rollout_alerts())}
    for alert in all_alerts(OBJECTIVES):
        for value in alert.condition.values if alert.name not in elsewhere else ():
            eventually(lambda value=value: bool(prometheus.numbers(value, instant=True)), f"{alert.name}: {value}")  # type: ignore[misc]


def test_the_budget_that_is_spent_raises_its_alert(prometheus: Prometheus) -> None:
    firing = 'ALERTS{alertname="PenstockBudgetNearlySpent", alertstate="firing", tenant="spender"}'
    eventually(lambda: prometheus.numbers(firing, instant=True) == [1.0], "it fires")


def test_prometheus_has_nothing_to_complain_of(prometheus: Prometheus) -> None:
    # A machine that stands still for a second makes one scrape late, but not the next one.
    eventually(lambda: prometheus.get("targets")["activeTargets"][0]["lastError"] == "", "it scrapes without an error")
    assert prometheus.log == ""
