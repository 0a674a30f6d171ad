from pathlib import Path

import pytest

from loadtest.cost.bytecodes import FunctionPrice
from loadtest.cost.cost_plot import draw_cost
from loadtest.cost.price import Price, summed


@pytest.mark.parametrize("names", [["plain"], ["plain", "plain stream request", "plain stream token"]])
def test_a_picture_grows_with_what_is_drawn(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "cost.png"
    draw_cost({name: Price(summed([FunctionPrice("gateway.a", "f", 1, 100.0)])) for name in names}, path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    assert width == 1500
    assert (height > 400) == (len(names) > 1)
