"""Every figure in miniature: claims are judged, pictures drawn, and the command prints and saves it all."""

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from loadtest.cli import bench_reproduce
from loadtest.reproduce import amoeba_12, amoeba_14, deepflow_5, deepflow_6, deepflow_8, figures, scalellm_8, scalellm_9
from loadtest.reproduce.amoeba_loads import ALTERNATION, LOADS, Load, code_with_long
from loadtest.reproduce.amoeba_traces import NEEDS_FILE
from loadtest.reproduce.concurrency_sweep import Sweep
from loadtest.reproduce.reproduction import Claim, Reproduction
from loadtest.simulation.heatmap_search import Plan

SWEEP = Sweep(low=(1, 4), high=(64, 160), least=20, per_client=2)
PLAN = Plan(deepflow_5.MODEL, (0.5, 2.0), (256, 4096), (0.0625, 0.5), 12)
PLACEMENTS = amoeba_12.Sizes(load=Load(code_with_long, (4.0, 8.0), 100))
SHAPES = amoeba_14.Sizes({ALTERNATION: LOADS[ALTERNATION]}, requests=40)
SIZES = deepflow_6.Sizes((2.0, 64.0), 60, 1)


def claim(found: Reproduction, beginning: str) -> Claim:
    (one,) = [c for c in found.claims if c.statement.startswith(beginning)]
    return one


def test_eight_gpus_in_several_replicas() -> None:
    found = scalellm_8.reproduce(SWEEP)
    assert [row[0] for row in found.rows] == ["1", "4", "64", "160"]
    assert claim(found, "At high concurrency").holds
    section_6 = claim(found, "Section 6 concludes")
    assert not section_6.holds
    assert section_6.verdict == "DOES NOT HOLD"


def test_experts_split_three_ways() -> None:
    found = scalellm_9.reproduce(SWEEP)
    assert claim(found, "EP2-TP4 consistently").holds
    assert not claim(found, "Section 4.1").holds


def test_the_map_against_one_replica_and_against_as_many_gpus() -> None:
    found = deepflow_5.reproduce(PLAN)
    assert claim(found, "Against one colocated replica: pairs are better").holds
    assert [row[:2] for row in found.rows] == [
        [name, rate] for name in ("one colocated replica", "two, as many GPUs") for rate in ("0.5", "2")
    ]
    assert len(found.claims) == 10


def test_the_published_policy_overloads_the_pair_and_ours_does_not() -> None:
    found = deepflow_6.reproduce(SIZES, PLAN)
    worse = claim(found, "With long answers: at very high rates PD-aware is worse")
    assert worse.holds
    assert not worse.ours
    assert claim(found, "With long answers: `auto` must not lose").source == "ours"


def test_a_prepared_start_takes_a_fifth_of_a_cold_one_at_most() -> None:
    found = deepflow_8.reproduce()
    assert claim(found, "With everything on").holds
    assert claim(found, "So it does where").holds
    assert claim(found, "Figure 10: 64 replicas").holds
    assert len(found.rows) == len(deepflow_8.MODELS) * len(deepflow_8.CASES)


def test_groups_that_change_are_compared_with_shapes_for_good() -> None:
    found = amoeba_14.reproduce(SHAPES)
    assert [row[0] for row in found.rows] == ["alternation, 6/s", "alternation, 9/s"]
    assert len(found.claims) == 6
    assert found.setting.endswith(NEEDS_FILE)
    assert claim(found, "With alternation: no group oscillates").ours


def test_placements_are_compared_on_the_same_groups() -> None:
    found = amoeba_12.reproduce(PLACEMENTS)
    assert [c.statement.split()[6] for c in found.claims] == ["round_robin", "least_load"]
    assert all("at 4/s" in c.found and "at 8/s" in c.found for c in found.claims)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "scalellm-8": lambda show: scalellm_8.reproduce(SWEEP, show),
        "scalellm-9": lambda show: scalellm_9.reproduce(SWEEP, show),
        "deepflow-5": lambda show: deepflow_5.reproduce(PLAN, show),
        "deepflow-6": lambda show: deepflow_6.reproduce(SIZES, PLAN, show),
        "deepflow-8": lambda show: deepflow_8.reproduce(show=show),
        "amoeba-12": lambda show: amoeba_12.reproduce(PLACEMENTS, show),
        "amoeba-13": lambda show: amoeba_12.over_time(PLACEMENTS, show),
        "amoeba-14": lambda show: amoeba_14.reproduce(SHAPES, show),
    }
    assert made.keys() == figures.FIGURES.keys() == set(bench_reproduce._FIGURES)
    monkeypatch.setattr(figures, "FIGURES", made)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", bench_reproduce._FIGURES)
def test_the_command_draws_prints_and_saves(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, saved = tmp_path / "figure.png", tmp_path / "figure.json"
    assert main(["bench", "reproduce", name, "--output", str(picture), "--json", str(saved)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"Drawn in {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(saved.read_text())
    assert document["benchmark"] == name
    verdicts = [line for line in said if line.startswith(("HOLDS", "DOES NOT HOLD"))]
    assert [line.startswith("HOLDS") for line in verdicts] == [c["holds"] for c in document["results"]["claims"]]


@pytest.mark.usefixtures("small")
def test_the_section_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "reproduce", "scalellm-9", "--output", str(tmp_path / "9.png"), "--markdown"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("## ScaleLLM, Figure 9")
    assert "](images/9.png)" in said
    assert "| **DOES NOT HOLD** | paper: Section 4.1" in said


@pytest.mark.usefixtures("small")
def test_the_command_says_what_stops_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "reproduce", "scalellm-9", "--output", "/nowhere/a.png"]) == 1
    assert capsys.readouterr().err.startswith("penstock bench reproduce: ")
