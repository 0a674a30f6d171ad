"""Loads over time."""

from pathlib import Path

import pytest

from loadtest.simulation.scaling.load_lengths import LONGEST_OUTPUT, LoadError, equal_lengths, read_lengths
from loadtest.simulation.scaling.named_loads import NAMED
from loadtest.simulation.scaling.scaling_load import RateCurve, ScalingLoad, read_rates


def test_rates_are_steps_or_lines_between_windows_middles() -> None:
    steps = RateCurve((0.0, 10.0), (1.0, 3.0), 20.0)
    assert (steps.at(9.9), steps.at(10.0), steps.at(99.0)) == (1.0, 3.0, 3.0)
    lines = RateCurve((0.0, 10.0), (1.0, 3.0), 20.0, smooth=True)
    assert (lines.at(0.0), lines.at(5.0), lines.at(10.0), lines.at(15.0)) == (1.0, 1.0, 2.0, 3.0)


def test_a_part_of_a_curve_begins_at_zero() -> None:
    part = RateCurve((0.0, 10.0, 20.0), (1.0, 2.0, 3.0), 30.0).cut(10.0, 30.0)
    assert (list(part.starts), list(part.rates), part.end, part.requests) == ([0.0, 10.0], [2.0, 3.0], 20.0, 50.0)


def test_drawn_requests_follow_the_rates() -> None:
    curve = RateCurve((0.0, 100.0, 200.0), (10.0, 0.0, 40.0), 300.0)
    drawn = ScalingLoad(name="made", curve=curve, lengths=equal_lengths(100, 10)).requests(seed=1)
    counts = [sum(start <= request.arrival < start + 100 for request in drawn) for start in (0, 100, 200)]
    assert counts[0] == pytest.approx(1000, rel=0.1) and counts[1] == 0
    assert counts[2] == pytest.approx(4000, rel=0.1)
    assert {(request.prompt_tokens, request.output_tokens) for request in drawn} == {(100, 10)}


def test_files_are_read_as_windows_and_quantiles(tmp_path: Path) -> None:
    rates = tmp_path / "rates.csv"
    rates.write_text("start_s,requests_per_s,more\n600,5,x\n1200,7,x\n")
    curve = read_rates(rates)
    assert (list(curve.starts), list(curve.rates), curve.end) == ([0.0, 600.0], [5.0, 7.0], 1200.0)
    lengths = tmp_path / "lengths.csv"
    lengths.write_text("quantile,input_tokens,output_tokens\n0.0,10,0\n0.5,20,10\n1.0,40,20000\n")
    found = read_lengths(lengths)
    assert max(found.outputs) == LONGEST_OUTPUT
    assert found.prompt_mean == pytest.approx(22.5, abs=0.5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("start_s,requests_per_s\n0,1\n600,x\n", ":3: expected start_s"),
        ("start_s,requests_per_s\n0,1\n600,-1\n", ":3: start_s ascends"),
        ("start_s,requests_per_s\n600,1\n0,1\n", ":3: start_s ascends"),
        ("start_s,requests_per_s\n0,nan\n", ":2: start_s ascends"),
        ("start_s,requests_per_s\n0,1\n", "less than two windows"),
        ("", "less than two windows"),
    ],
)
def test_bad_rates_are_named_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    with pytest.raises(LoadError, match=problem):
        read_rates(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quantile,input_tokens\n0.5,1\n", ":2: expected quantile"),
        ("quantile,input_tokens,output_tokens\n0.5,1,1\n0.4,1,1\n", ":3: quantiles ascend"),
        ("quantile,input_tokens,output_tokens\n", "has no quantiles"),
    ],
)
def test_bad_lengths_are_named_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(text)
    with pytest.raises(LoadError, match=problem):
        read_lengths(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"none\.csv: cannot be read"):
        read_rates(tmp_path / "none.csv")


@pytest.mark.parametrize("name", NAMED)
def test_named_loads_have_rates_until_their_end(name: str) -> None:
    load = NAMED[name]()
    assert load.name == name and load.curve.peak > 0 and load.curve.starts[-1] < load.curve.end
    assert load.history is None or load.history.end > 0


def test_a_holiday_is_a_quarter_of_what_its_history_promises() -> None:
    load = NAMED["holiday"]()
    assert load.history is not None
    week_before = load.history.cut(load.history.end - 7 * 86_400, load.history.end - 6 * 86_400)
    assert load.curve.requests == pytest.approx(week_before.requests / 4, rel=0.05)
