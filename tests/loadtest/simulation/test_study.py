import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from gateway.cli.main import main
from loadtest.simulation.goodput import Goodput
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulation_plots import draw_study
from loadtest.simulation.simulation_report import print_study
from loadtest.simulation.study import PolicyResult, Study, run_study
from loadtest.simulation.synthetic import Synthetic
from loadtest.simulation.workload import WorkloadSpec
from protos.types import Shape
from routing.contracts.heatmap import Comparison, HeatmapFile, save_heatmap
from tests.loops import BOUND_SECONDS

FLEET = Fleet((Pool("a", PoolShape(tp=2), replicas=2),))
WORKLOAD = WorkloadSpec(Synthetic(2000, 50), 60, "poisson", 1)
FLEET_FILE = "pools: [{name: a, shape: {tp: 2}, replicas: 2}]\n"


def study(**more: object) -> Study:
    return Study(FLEET, WORKLOAD, ("round_robin", "least_load"), **more)  # type: ignore[arg-type]


def test_every_policy_at_every_rate() -> None:
    seen: list[tuple[str, float, int]] = []
    results = run_study(study(rates=(1.0, 200.0)), lambda *told: seen.append(told))
    assert [result.policy for result in results] == ["round_robin", "least_load"]
    for result in results:
        low, high = result.summaries
        assert (low.requests, low.refused) == (60, 0)
        assert low.rate < 2 < 150 < high.rate
        assert low.attainment > high.attainment
        assert result.goodput is None
    assert {label for label, _, _ in seen} == {
        f"{policy} at {rate}/s" for policy in ("round_robin", "least_load") for rate in (1, 200)
    }
    assert sorted(done for _, done, _ in seen) == [1, 2, 3, 4]


def test_without_rates_a_trace_is_played_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = (f"2023-11-16 18:17:{second:02},{100 + second},5\n" for second in range(0, 60, 5))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(rows), encoding="utf-8")
    (result,) = run_study(Study(FLEET, WorkloadSpec(str(path)), ("round_robin",)))
    assert [found.rate for found in result.summaries] == [pytest.approx(0.2)]


def test_goodput_of_each_policy_in_processes_of_their_own() -> None:
    results = run_study(study(goodput=True, lowest=1.0, highest=1000.0))
    for result in results:
        assert result.summaries == []
        assert result.goodput is not None
        assert 1 < result.goodput.rate < 1000


def test_the_table_and_the_picture(tmp_path: Path) -> None:
    results = run_study(study(rates=(1.0, 50.0)))
    out = io.StringIO()
    print_study([*results, PolicyResult("other", [], Goodput(12.3, False, {12.3: True}))], Console(file=out, width=120))
    said = out.getvalue()
    assert said.count("least_load") == 2
    assert "at least 12.3" in said
    draw_study(results, tmp_path / "p.png", "title", 0.05)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def simulate(tmp_path: Path, *options: str) -> int:
    (tmp_path / "fleet.yaml").write_text(FLEET_FILE, encoding="utf-8")
    return main(["bench", "simulate", "--fleet", str(tmp_path / "fleet.yaml"), *options])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, drawn = tmp_path / "found.json", tmp_path / "found.png"
    options = ["--synthetic", "prompt_tokens=500,output_tokens=20,variation=0.5", "--policies", "round_robin"]
    options += ["--rates", "1,5", "--requests", "40", "--json", str(found), "--plot", str(drawn)]
    assert simulate(tmp_path, *options) == 0
    assert "round_robin" in capsys.readouterr().out
    document = json.loads(found.read_bytes())
    assert document["benchmark"] == "simulate"
    assert [entry["requests"] for entry in document["results"][0]["summaries"]] == [40, 40]
    assert document["settings"]["synthetic"]["variation"] == 0.5
    assert drawn.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--synthetic", "prompt_tokens=0"], "--synthetic: Expected `int` >= 1"),
        (["--synthetic", "prompts=1"], "--synthetic: Object contains unknown field `prompts`"),
        (["--synthetic", "variation=1", "--policies", "best"], "--policies: there is no policy best; there are"),
        (["--synthetic", "variation=1", "--arrivals", "trace"], "--arrivals trace needs a --trace"),
        (["--synthetic", "variation=1", "--plot", "p.png"], "--plot needs at least two --rates"),
        (["--trace", "nowhere.jsonl"], "nowhere.jsonl: cannot be read: No such file or directory"),
        (["--synthetic", "variation=1", "--heatmap", "nowhere.json"], "nowhere.json"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    assert simulate(tmp_path, *options) == 1
    said = capsys.readouterr().err
    assert said.startswith("penstock bench simulate: ")
    assert problem in said
    assert said.count("\n") == 1


def test_a_heatmap_of_other_shapes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "heat.json"
    compared = Comparison(Shape(tp=8), Shape(tp=2), Shape(), ((0.1,),), ((1.0,),))
    save_heatmap(HeatmapFile("penstock-heatmap", 1, "mixtral-8x7b", (1.0,), (512,), (0.25,), (compared,)), path)
    fleet = tmp_path / "pairs.yaml"
    fleet.write_text(
        "pools: [{name: c, shape: {tp: 4}}, {name: p, role: prefill, shape: {tp: 2}}, {name: d, role: decode}]\n",
        encoding="utf-8",
    )
    options = ["--synthetic", "variation=1", "--policies", "pd_heatmap", "--heatmap", str(path)]
    assert main(["bench", "simulate", "--fleet", str(fleet), *options]) == 1
    assert "comparisons: tp=4 colocated with tp=2 prefill and tp=1 decode is missing\n" in capsys.readouterr().err


def test_a_row_fits_80_columns() -> None:
    out = io.StringIO()
    print_study(run_study(study(rates=(1.0,))), Console(file=out, width=80))
    assert len([line for line in out.getvalue().splitlines() if "100.0%" in line]) == len(study().policies)
    assert "balance" not in out.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        ["--rates", "2,1"],
        ["--rates", "0"],
        ["--rates", "x"],
        ["--json", "/nowhere/a"],
        ["--between", "1"],
        ["--workers", "0"],
        ["--synthetic", "x"],
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit):
        simulate(tmp_path, "--synthetic", "variation=1", *options)


def test_a_process_ends_with_the_one_that_has_started_it() -> None:
    program = "import threading; from loadtest.simulation.study import end_with; end_with(-1); threading.Event().wait()"
    assert subprocess.run([sys.executable, "-c", program], timeout=BOUND_SECONDS).returncode == 1
