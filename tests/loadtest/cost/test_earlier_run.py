from pathlib import Path

import pytest

from loadtest.cost.bytecodes import FunctionPrice
from loadtest.cost.earlier_run import read_run
from loadtest.cost.price import Price, Prices, summed
from loadtest.load.processes import BenchError
from loadtest.reports.console import write_json


def test_what_a_run_wrote_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    found: Prices = {
        "plain": Price(summed([FunctionPrice("gateway.a", "f", 1, 2.5)]), {"instructions": 7.0}),
        "tools": Price(counts={"system calls": 1.0}),
    }
    write_json(path, "cost", found, {})
    assert read_run(path) == found


@pytest.mark.parametrize("text", ["", "{}", '{"results": 3}'])
def test_anything_else_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cost.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"cost\.json is no result of this benchmark"):
        read_run(path)
