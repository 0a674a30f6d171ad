"""The command `penstock bench scaling`."""

import argparse
import json
from pathlib import Path

import pytest

from loadtest.cli import bench_scaling


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    bench_scaling.register(parser.add_subparsers())
    parsed = parser.parse_args(["scaling", *arguments])
    return int(parsed.run(parsed))


def test_a_load_from_files_is_compared_drawn_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})  # in this process
    rates = tmp_path / "rates.csv"
    rates.write_text("start_s,requests_per_s\n0,5\n120,10\n240,8\n")
    found = tmp_path / "found.json"
    drawn = tmp_path / "drawn.png"
    assert not run(
        *("--load", str(rates), "--lengths", "800,60", "--profile", "llama-3.1-8b", "--shapes", "tp=1"),
        *("--speed", "0.2", "--peak-replicas", "2", "--max", "4", "--level", "fluid", "--startup-seconds", "30"),
        *("--against", "static,hpa", "--json", str(found), "--plot", str(drawn)),
    )
    out = " ".join(capsys.readouterr().out.split())
    assert "penstock" in out and "one replica of 4 serves" in out and "the controller's model says" in out
    results = {result["scaler"]: result for result in json.loads(found.read_text())["results"]}
    assert set(results) == {"penstock", "static", "hpa"}
    assert results["static"]["in_time"] >= 0.99 and results["hpa"]["mean_replicas"] > 0
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--load", "none.csv"), "none.csv: cannot be read"),
        (("--load", "llmd-ramp", "--days", "1,2"), "--days: the load has no two windows between day 1 and day 2"),
        (("--load", "llmd-ramp", "--shapes", "tp=x"), "--shapes: 'tp=x': expected"),
        (("--load", "llmd-ramp", "--shapes", "tp=2:ep=2"), "--shapes: tp=2:ep=2: ep=2 must divide"),
        (("--load", "llmd-ramp", "--profile", "none"), "--profile: no profile none"),
        (("--load", "llmd-ramp", "--lengths", "5,x"), "--lengths: '5,x': expected"),
        (("--load", "llmd-ramp", "--min", "9"), "--min 9 is more than --max 8"),
        (("--load", "llmd-ramp", "--gpu-price", "2,3"), "--gpu-price: 2 prices for 1 shapes"),
        (("--load", "llmd-ramp", "--against", "none"), "there is no scaler none"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 1
    err = capsys.readouterr().err
    assert problem in err and err.count("\n") == 1


def test_each_shape_may_have_a_price_of_its_own() -> None:
    parser = argparse.ArgumentParser()
    bench_scaling.register(parser.add_subparsers())
    priced = ("--load", "llmd-ramp", "--shapes", "tp=2,tp=4", "--gpu-price", "2.5,2", "--spot-max", "2")
    scenario, _ = bench_scaling._scenario(parser.parse_args(["scaling", *priced]))
    assert [pool.scaling.price for pool in scenario.pools] == [5.0, 8.0]
    assert [pool.scaling.spot_price for pool in scenario.pools] == pytest.approx([1.75, 2.8])
    with pytest.raises(SystemExit):
        parser.parse_args(["scaling", "--load", "llmd-ramp", "--gpu-price", "2,0"])
