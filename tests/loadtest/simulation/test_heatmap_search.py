import argparse
import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from loadtest.cli.bench_heatmap import _pair, _shape
from loadtest.simulation.heatmap_search import Plan, profile
from protos.types import Shape
from routing.contracts.heatmap import Heatmap, load_heatmap

TP4 = Shape(tp=4)
PAIR = (TP4, TP4)
SMALL = Plan("mixtral-8x7b", rates=(1.0, 4.0), prefill_tokens=(256, 2048, 8192), ratios=(0.0625, 0.25), requests=16)


def test_the_map_has_deepflows_form() -> None:
    """Section 5.3.1: pairs do better on longer prompts and shorter answers, and win more than they lose."""
    file = profile(SMALL, [TP4], [PAIR])
    (comparison,) = file.comparisons
    cells = [[cell or 0.0 for cell in row] for row in comparison.cells]
    assert cells[0] < cells[1] < cells[2]
    assert cells[2][0] > cells[2][1] > 0
    assert max(map(max, cells)) > -10 * min(map(min, cells))
    assert all(seconds is not None and seconds > 0 for row in comparison.pair_seconds for seconds in row)


def test_a_cell_is_summed_over_the_rates() -> None:
    apart = [profile(Plan("mixtral-8x7b", (rate,), (2048,), (0.25,), 16), [TP4], [PAIR]) for rate in (1.0, 4.0)]
    together = profile(Plan("mixtral-8x7b", (1.0, 4.0), (2048,), (0.25,), 16), [TP4], [PAIR])
    cells = [file.comparisons[0].cells[0][0] or 0.0 for file in (*apart, together)]
    assert cells[2] == pytest.approx(cells[0] + cells[1], abs=2e-4)


def test_every_shape_is_compared_with_every_pair_and_the_file_is_usable() -> None:
    plan = Plan("mixtral-8x7b", (1.0,), (512,), (0.25,), 4)
    pairs = [PAIR, (Shape(tp=2), TP4)]
    file = profile(plan, [TP4, Shape(tp=8, ep=2)], pairs, name="my-model")
    chart = Heatmap(file)
    assert chart.model == "my-model"
    assert len(file.comparisons) == 4
    assert list(chart.missing([TP4, Shape(tp=8, ep=2)], [TP4], [TP4])) == []


def test_two_colocated_replicas_share_the_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (
        profile(Plan("mixtral-8x7b", (8.0,), (4096,), (0.0625,), 16, colocated_replicas=replicas), [TP4], [PAIR])
        for replicas in (1, 2)
    )
    assert (two.comparisons[0].cells[0][0] or 0.0) < (one.comparisons[0].cells[0][0] or 0.0)
    saved = ["--output", str(tmp_path / "heat.json")]
    assert main([*COMMAND, *SIZES, "--colocated-replicas", "2", *saved]) == 0
    assert "2 TP4 colocated replicas or TP4 prefill + TP4 decode" in capsys.readouterr().out


def test_cells_beyond_the_context_stay_empty() -> None:
    plan = Plan("mixtral-8x7b", (1.0,), (1024, 30_000), (0.125, 8.0), 2)
    (comparison,) = profile(plan, [TP4], [PAIR]).comparisons
    assert comparison.cells[0][1] is None
    assert comparison.cells[1][0] is None
    assert comparison.pair_seconds[1] == (None, None)
    assert comparison.cells[0][0] is not None


@pytest.mark.parametrize(
    ("model", "shape", "said"),
    [("gpt", TP4, "no profile gpt; there are llama"), ("mixtral-8x7b", Shape(tp=16, ep=16), "must divide")],
)
def test_what_cannot_run_is_refused(model: str, shape: Shape, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        profile(Plan(model, (1.0,), (512,), (0.25,), 2), [shape], [PAIR])


COMMAND = ["bench", "heatmap", "--model", "mixtral-8x7b", "--colocated", "tp=4", "--pair", "tp=4,tp=4"]
SIZES = ["--rates", "1", "--requests", "2", "--prefill-tokens", "256,4096", "--ratios", "0.125,8"]


def test_the_command_saves_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, plot = tmp_path / "heat.json", tmp_path / "heat.png"
    assert main([*COMMAND, *SIZES, "--output", str(output), "--plot", str(plot)]) == 0
    said = capsys.readouterr().out
    assert "One TP4 colocated replica or TP4 prefill + TP4 decode" in said
    assert f"Saved in {output}, drawn in {plot}" in said
    assert load_heatmap(output).model == "mixtral-8x7b"
    assert json.loads(output.read_text())["comparisons"][0]["cells"][1][1] is None
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_command_says_what_stops_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, *SIZES, "--model", "gpt"]) == 1
    assert capsys.readouterr().err.startswith("penstock bench heatmap: no profile gpt")


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--output", "/nowhere/heat.json"], "argument --output: /nowhere/heat.json: there is no folder /nowhere"),
        (["--ratios", "a"], "argument --ratios: 'a' is no number"),
        (["--rates", "2,1"], "argument --rates: '2,1': expected positive numbers that ascend"),
        (["--prefill-tokens", "4.5"], "argument --prefill-tokens: '4.5': expected a whole number, at least 1"),
    ],
)
def test_the_command_refuses_arguments(extra: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*COMMAND, *SIZES, *extra])
    assert capsys.readouterr().err.endswith(f"penstock bench heatmap: error: {said}\n")


def test_shapes_as_people_write_them() -> None:
    assert _shape("tp=8:ep=2") == Shape(tp=8, ep=2)
    assert _pair("tp=4,tp=2:pp=2") == (TP4, Shape(tp=2, pp=2))
    for text in ("", "4", "tp=", "tp=0", "tp=4:tp=4", "tp=4:ep=3", "gpus=4", "tp=-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            _shape(text)
    with pytest.raises(argparse.ArgumentTypeError, match="no pair"):
        _pair("tp=4")
