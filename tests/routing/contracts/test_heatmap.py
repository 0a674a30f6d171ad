import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Shape
from routing.contracts.heatmap import Comparison, Heatmap, HeatmapError, HeatmapFile, load_heatmap, save_heatmap

TP4, TP8 = Shape(tp=4), Shape(tp=8, ep=2)
CELLS = ((-0.2, 0.1, 0.4), (0.6, 0.8, None))
SECONDS = ((1.0, 2.0, 3.0), (4.0, 5.0, None))
FILE = HeatmapFile(
    "penstock-heatmap",
    1,
    "m",
    (1.0, 4.0),
    (100, 10_000),
    (0.1, 1.0, 10.0),
    (Comparison(TP4, TP4, TP8, CELLS, SECONDS),),
)


def written(folder: Path, **changes: Any) -> Path:
    save_heatmap(FILE, folder / "heat.json")
    path = folder / "heat.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def comparison(**changes: Any) -> list[dict[str, Any]]:
    shape = {"tp": 4, "ep": 1, "pp": 1}
    shapes = {"colocated": shape, "prefill": shape, "decode": {"tp": 8, "ep": 2, "pp": 1}}
    return [shapes | {"cells": CELLS, "pair_seconds": SECONDS} | changes]


def test_a_file_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    assert load_heatmap(written(tmp_path)).file == FILE


@pytest.mark.parametrize(
    ("prompt", "output", "gain"),
    [
        (100, 10, -0.1 * 1.0),
        (100, 100, 0.05 * 2.0),
        (100, 1000, 0.2 * 3.0),
        (10_000, 1000, 0.3 * 4.0),
        (10_000, 10_000, 0.4 * 5.0),
        # What does not fit is taken for the longest answer that was profiled.
        (10_000, 100_000, 0.4 * 5.0),
        # Beyond the axes, and on either side of the geometric mean between two values.
        (1, 0, -0.1 * 1.0),
        (10**6, 10, 0.3 * 4.0),
        (999, 99.9, -0.0),
        (1001, 1001, 0.4 * 5.0),
    ],
)
def test_the_nearest_cell_counts(prompt: float, output: float, gain: float) -> None:
    found = Heatmap(FILE).gain(TP4, TP4, TP8, prompt, output)
    if gain:
        assert found == pytest.approx(gain)
    assert found is not None


def test_what_was_not_compared_has_no_gain() -> None:
    chart = Heatmap(FILE)
    assert chart.gain(TP8, TP4, TP8, 100, 100) is None
    assert list(chart.missing([TP4], [TP4], [TP8])) == []
    assert list(chart.missing([TP4, TP8, TP8], [TP4], [TP4, TP8])) == [
        (TP4, TP4, TP4),
        (TP8, TP4, TP4),
        (TP8, TP4, TP8),
    ]


@given(prompt=st.floats(0, 1e9), output=st.floats(0, 1e9))
def test_any_length_has_a_gain(prompt: float, output: float) -> None:
    assert Heatmap(FILE).gain(TP4, TP4, TP8, prompt, output) is not None


def test_a_row_that_nothing_fits_has_none() -> None:
    empty = Comparison(TP4, TP4, TP4, ((None,),), ((None,),))
    chart = Heatmap(HeatmapFile("penstock-heatmap", 1, "m", (1.0,), (100,), (1.0,), (empty,)))
    assert chart.gain(TP4, TP4, TP4, 100, 100) == 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "svg"}, "format: "),
        ({"version": 2}, "version: expected 1, got 2"),
        ({"model": 7}, "model: Expected `str`, got `int`"),
        ({"rates": []}, "rates: is empty"),
        ({"rates": [0, 1]}, "rates: must be positive and finite"),
        ({"prefill_tokens": [100, 100]}, "prefill_tokens: must ascend"),
        ({"prefill_tokens": [1, 2, 3]}, "comparisons[0].cells: expected 3 rows, got 2"),
        ({"ratios": [1.0]}, "comparisons[0].cells[0]: expected 1 cells, got 3"),
        ({"ratios": [2.0, 1.0, 0.5]}, "ratios: must ascend"),
        ({"comparisons": []}, "comparisons: is empty"),
        ({"comparisons": comparison() * 2}, "comparisons[1]: compares the same shapes as another one"),
        ({"comparisons": comparison(cells=[["x"] * 3] * 2)}, "comparisons[0].cells[0][0]: Expected "),
        ({"comparisons": comparison(decode={"tp": "4"})}, "comparisons[0].decode.tp: Expected `int`, got `str`"),
        ({"colours": "red"}, "Object contains unknown field `colours`"),
    ],
)
def test_a_bad_file_is_refused_by_file_and_field(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(HeatmapError) as caught:
        load_heatmap(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"null", b'{"format": "penstock-heatmap"}'])
def test_what_is_no_heatmap_at_all_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "heat.json"
    path.write_bytes(content)
    with pytest.raises(HeatmapError, match=f"^{path}: "):
        load_heatmap(path)


def test_a_missing_file_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(HeatmapError, match=r"heat\.json: cannot be read: No such file or directory"):
        load_heatmap(tmp_path / "heat.json")
