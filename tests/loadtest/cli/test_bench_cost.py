from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.cli.main import main
from loadtest.cost import budget, measure
from loadtest.cost.bytecodes import FunctionPrice
from loadtest.cost.price import Price, Prices, summed
from loadtest.cost.scenarios import Scenario
from loadtest.load.processes import BenchError


def prices(bytecodes: float) -> Prices:
    return {"plain": Price(summed([FunctionPrice("gateway.a", "f", 1, bytecodes)]))}


@pytest.fixture
def budget_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "budget.json"
    budget.write_budget(prices(1000.0), path)
    monkeypatch.setattr(budget.read_budget, "__defaults__", (path,))
    monkeypatch.setattr(budget.write_budget, "__defaults__", (path,))
    monkeypatch.setattr(budget, "BUDGET_FILE", path)
    return path


def measured(monkeypatch: pytest.MonkeyPatch, found: Prices) -> None:
    monkeypatch.setattr(measure, "measure", lambda scenarios, kinds, show: found)


@pytest.mark.parametrize(("now", "status"), [(1029.0, 0), (1040.0, 1)])
def test_over_the_budget_the_status_is_one(
    now: float, status: int, budget_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, prices(now))
    assert main(["bench", "cost", "--counts", "bytecodes"]) == status
    assert ("over the budget: plain: bytecodes of gateway" in capsys.readouterr().out) == bool(status)


def test_a_budget_of_another_python_is_not_compared(
    budget_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, prices(2000.0))
    monkeypatch.setattr(budget, "python_version", lambda: "3.99")
    assert main(["bench", "cost", "--counts", "bytecodes"]) == 0
    assert "Not compared: the budget is of CPython 3." in capsys.readouterr().out


def test_the_budget_the_json_and_the_picture_are_written(
    budget_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, prices(2000.0))
    json, png = tmp_path / "cost.json", tmp_path / "cost.png"
    options = ["--counts", "bytecodes", "--functions", "3", "--json", str(json), "--plot", str(png)]
    assert main(["bench", "cost", *options, "--write-budget"]) == 0
    assert budget.read_budget(budget_file).prices["plain"]["bytecodes of gateway"] == 2000.0
    assert png.read_bytes().startswith(b"\x89PNG")
    measured(monkeypatch, prices(2010.0))
    assert main(["bench", "cost", "--counts", "bytecodes", "--against", str(json)]) == 0
    assert "gateway.a:f  2,000.0  2,010.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--scenarios", "plane"], "there is no scenario 'plane'"),
        (["--against", "/none.json"], "/none.json is no result of this benchmark"),
        (["--counts", "wire", "--plot", "x.png"], "--plot draws bytecodes"),
    ],
)
def test_what_cannot_be_is_one_line(options: Sequence[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cost", *options]) == 1
    assert error in capsys.readouterr().err


def test_an_unknown_count_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "cost", "--counts", "seconds"])
    assert "'seconds' is none of bytecodes, wire, instructions" in capsys.readouterr().err


def test_a_stack_that_does_not_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(scenarios: Sequence[Scenario], at: object) -> Prices:
        raise BenchError("the replica whole ended with status 1: no such tokenizer")

    monkeypatch.setattr(measure, "KINDS", {"bytecodes": failing})
    assert main(["bench", "cost", "--scenarios", "plain", "--counts", "bytecodes"]) == 1
    assert capsys.readouterr().err == "penstock bench: the replica whole ended with status 1: no such tokenizer\n"
