"""The rules by Prometheus' own tool: they are well formed, and alerts fire when they should."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.dashboards.alert_cases import CASES, REQUESTS, Case
from tools.dashboards.objectives import Objectives
from tools.dashboards.rules import alert_rules, all_alerts, recording_rules

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
ALERTS = all_alerts(Objectives())


def promtool(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    assert PROMTOOL is not None
    command = [PROMTOOL, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "recording.yaml").write_text(recording_rules(Objectives()))
    (tmp_path / "alerts.yaml").write_text(alert_rules(Objectives()))
    return tmp_path


def test_every_alert_has_its_cases() -> None:
    assert set(CASES) == {alert.name for alert in ALERTS}
    assert len(ALERTS) == len(CASES)


def test_what_is_compared_is_in_the_expression() -> None:
    for alert in ALERTS:
        assert alert.condition.values, alert.name
        for value in alert.condition.values:
            assert "".join(value.split()) in "".join(alert.condition.expr.split()), alert.name


def test_each_alert_says_what_to_do() -> None:
    for alert in ALERTS:
        rule = alert.rule()
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"
        for text in (alert.summary, alert.meaning, *alert.actions):
            assert text[0].isupper() or text[0] in "`*[{0123456789", (alert.name, text)
            assert text.rstrip("*`)").endswith((".", "?")), (alert.name, text)


@needs_promtool
def test_the_files_are_well_formed(rules: Path) -> None:
    done = promtool("check", "rules", "recording.yaml", "alerts.yaml", folder=rules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def of(case: Case, alert: str, *, bad: bool) -> dict[str, Any]:
    """A test that counts how often the alert fires."""
    return {
        "interval": "1m",
        "input_series": case.series(bad=bad),
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
                "eval_time": f"{case.after}m",
                "exp_samples": [{"labels": "{}", "value": int(bad)}],
            }
        ],
    }


@needs_promtool
@pytest.mark.parametrize("recorded", [True, False], ids=["objectives", "others"])
def test_alerts_fire_when_they_should_and_not_otherwise(rules: Path, recorded: bool) -> None:
    chosen = [alert for alert in ALERTS if ("BudgetBurns" in alert.name) == recorded]
    tests = [of(CASES[alert.name], alert.full_name, bad=bad) for alert in chosen for bad in (True, False)]
    files = ["recording.yaml", "alerts.yaml"] if recorded else ["alerts.yaml"]
    whole = {"rule_files": files, "evaluation_interval": "1m", "tests": tests}
    (rules / "tests.yaml").write_text(yaml.safe_dump(whole))
    done = promtool("test", "rules", "tests.yaml", folder=rules)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_what_an_alert_tells(rules: Path) -> None:
    case = CASES["KvCacheNearlyFull"]
    told = {
        "eval_time": "15m",
        "alertname": "PenstockKvCacheNearlyFull",
        "exp_alerts": [
            {
                "exp_labels": {"severity": "ticket", "model": "m", "pool": "p"},
                "exp_annotations": {
                    "summary": "The KV cache of pool p (m) is nearly full.",
                    "description": "95% of its blocks are in use. More than 90 % have been for 10 minutes. Beyond 95 % "
                    "requests wait at the gateway, and engines may begin to preempt.",
                    "runbook": "docs/alerts.md#penstockkvcachenearlyfull",
                },
            }
        ],
    }
    test = {"interval": "1m", "input_series": case.series(bad=True), "alert_rule_test": [told]}
    whole = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (rules / "tests.yaml").write_text(yaml.safe_dump(whole))
    done = promtool("test", "rules", "tests.yaml", folder=rules)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_an_alert_ends_soon_after_its_cause(rules: Path) -> None:
    """That is what the short windows are for: the long one still remembers."""
    series = {REQUESTS % "ok": "0+1000x70", REQUESTS % "timeout": "0x20 0+500x10 5000x40"}
    alert = 'count(ALERTS{alertname="PenstockAvailabilityBudgetBurnsFast", alertstate="firing"}) or vector(0)'
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": alert, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": firing}]}
            for minute, firing in ((20, 0), (30, 1), (66, 0))
        ]
        + [
            {
                "expr": "model:penstock_availability_bad:ratio_rate1h > bool 0.0144",
                "eval_time": "66m",
                "exp_samples": [{"labels": '{model="m"}', "value": 1}],
            }
        ],
    }
    whole = {"rule_files": ["recording.yaml", "alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (rules / "tests.yaml").write_text(yaml.safe_dump(whole))
    done = promtool("test", "rules", "tests.yaml", folder=rules)
    assert done.returncode == 0, done.stdout + done.stderr
