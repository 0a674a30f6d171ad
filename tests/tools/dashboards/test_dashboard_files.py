"""What is committed is what the generator makes."""

from pathlib import Path

import pytest

from tools.dashboards.__main__ import main
from tools.dashboards.dashboard_files import files
from tools.dashboards.objectives import Objectives
from tools.dashboards.rules import all_alerts
from tools.dashboards.runbook import runbook

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "deploy" / "observability"
MADE = files(Objectives())


@pytest.mark.parametrize("name", MADE)
def test_the_copy_is_what_is_made(name: str) -> None:
    assert (COMMITTED / name).read_text(encoding="utf-8") == MADE[name], "run: python -m tools.dashboards"


def test_nothing_else_lies_there() -> None:
    folders = ("grafana/dashboards", "prometheus/rules")
    found = {str(path.relative_to(COMMITTED)) for folder in folders for path in (COMMITTED / folder).iterdir()}
    assert found == set(MADE)


def test_the_runbook_has_every_alert() -> None:
    text = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    assert text == runbook(Objectives()), "run: make docs"
    headings = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert headings == [alert.full_name for alert in all_alerts(Objectives())]


def test_the_command_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    written = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == MADE
    assert main(["--runbook", "--availability", "99"]) == 0
    assert "at most 1 % requests" in capsys.readouterr().out


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path), "--first-token", "2.2"]) == 1
    assert "penstock_time_to_first_token_seconds has no bucket for 2.2 s" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["--out", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit):
        main(["--availability", "100"])
