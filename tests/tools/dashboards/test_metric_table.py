"""The documentation has every metric."""

from pathlib import Path

import pytest

from observability.metrics.declarations import METRICS
from tools.dashboards.__main__ import main
from tools.dashboards.metric_table import metric_table

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"


def test_the_page_has_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{metric_table()}"), (
        "run: python -m tools.dashboards --metrics"
    )


def test_each_metric_is_a_row() -> None:
    rows = metric_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [metric.name for metric in METRICS]
    # What a help text has in it must not look like another column.
    assert {row.count("|") for row in rows} == {5}


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--metrics"]) == 0
    assert capsys.readouterr().out == metric_table()
    with pytest.raises(SystemExit):
        main(["--metrics", "--runbook"])
