from pathlib import Path

import pytest

from loadtest.cost.budget import (
    Budget,
    figures,
    grown_functions,
    overdrafts,
    python_version,
    read_budget,
    write_budget,
)
from loadtest.cost.bytecodes import LIBRARIES, PACKAGES, FunctionPrice
from loadtest.cost.price import TOKENS, Bytecodes, Price, Prices
from loadtest.load.processes import BenchError


def price(counts: dict[str, float] | None = None, **packages: float) -> Price:
    every = dict.fromkeys((*PACKAGES, LIBRARIES), 0.0) | packages
    return Price(Bytecodes(sum(every.values()), every, {}, []), counts or {})


def budget(prices: Prices) -> Budget:
    return Budget(python_version(), figures(prices))


def test_three_per_cent_more_is_within_the_budget_and_a_little_more_is_not() -> None:
    before = {"plain": price(gateway=6000.0, routing=3000.0), "tools": price(gateway=6000.0)}
    assert overdrafts(budget(before), {"plain": price(gateway=6180.0, routing=3090.0)}) == []
    over = overdrafts(budget(before), {"plain": price(gateway=6000.0, routing=3100.0), "tools": price(gateway=1.0)})
    assert [(one.price, one.figure) for one in over] == [("plain", "bytecodes of routing")]
    assert str(over[0]) == "plain: bytecodes of routing: 3,000.0 -> 3,100.0 (+3.3%)"


def test_a_package_that_grows_is_named_even_if_another_shrinks() -> None:
    over = overdrafts(budget({"plain": price(gateway=6000.0, routing=3000.0)}), {"plain": price(gateway=7000.0)})
    assert [one.figure for one in over] == ["bytecodes of gateway"]


def test_what_grew_most_comes_first() -> None:
    before = {"a": price(gateway=1000.0, routing=1000.0)}
    over = overdrafts(budget(before), {"a": price(gateway=1100.0, routing=1500.0)})
    assert [one.figure for one in over] == ["bytecodes of routing", "bytecodes of gateway"]


def test_a_small_package_may_grow_by_a_small_part_of_the_whole() -> None:
    before = budget({"plain": price(gateway=9900.0, protos=100.0)})
    assert overdrafts(before, {"plain": price(gateway=9900.0, protos=149.0)}) == []
    assert len(overdrafts(before, {"plain": price(gateway=9900.0, protos=151.0)})) == 1


def test_streams_are_counted_less_exactly() -> None:
    before = budget({"plain stream token": price(gateway=400.0, routing=100.0)})
    assert overdrafts(before, {"plain stream token": price(gateway=400.0, routing=109.0)}) == []
    assert len(overdrafts(before, {"plain stream token": price(gateway=413.0, routing=111.0)})) == 2


def test_what_a_stream_s_request_wins_and_its_tokens_lose_is_a_matter_of_ticks() -> None:
    def stream(request: float, token: float) -> Prices:
        return {"s request": price({TOKENS: 50.0}, safety=request, gateway=4000.0), "s token": price(safety=token)}

    before = budget(stream(1000.0, 140.0))
    assert overdrafts(before, stream(1500.0, 130.0)) == []
    assert overdrafts(before, stream(500.0, 150.0)) == []
    assert [one.price for one in overdrafts(before, stream(1500.0, 140.0))] == ["s request"]
    assert [one.price for one in overdrafts(before, stream(1000.0, 150.0))] == ["s token"]
    assert [one.price for one in overdrafts(before, stream(1500.0, 134.0))] == ["s request"]


def test_a_package_that_had_no_part_is_over_the_budget_when_it_gets_one() -> None:
    (one,) = overdrafts(budget({"plain": price(gateway=1000.0)}), {"plain": price(gateway=1000.0, safety=50.0)})
    assert "safety" in str(one) and "new" in str(one)


def test_other_counts_are_compared_too_unless_they_depend_on_timing() -> None:
    before = budget({"plain": price({"instructions": 1e6, "system calls": 50.0, "store scripts": 2.0})})
    grown = {"plain": price({"instructions": 1.1e6, "system calls": 80.0, "store scripts": 3.0})}
    assert {one.figure for one in overdrafts(before, grown)} == {"instructions", "store scripts"}


def test_what_the_budget_does_not_have_is_not_over_it() -> None:
    assert overdrafts(budget({}), {"new": price(gateway=1.0)}) == []


def test_a_budget_is_written_with_a_figure_a_line_and_keeps_what_was_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    write_budget({"plain": price({"instructions": 1_234_567.8}, gateway=1.234), "tools": price(gateway=5.0)}, path)
    write_budget({"plain": price(gateway=2.0)}, path)
    written = read_budget(path)
    assert written.python == python_version()
    assert written.prices["plain"]["bytecodes of gateway"] == 2.0
    assert written.prices["plain"]["instructions"] == 1_234_568
    assert written.prices["tools"]["bytecodes of gateway"] == 5.0
    lines = path.read_text().splitlines()
    assert sum("bytecodes of gateway" in line for line in lines) == 2
    assert all(line.count(":") <= 1 for line in lines)


def test_a_budget_of_another_version_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    path.write_text('{"python": "2.7", "prices": {"old": {"bytecodes of gateway": 1}}}')
    write_budget({"plain": price(gateway=2.0)}, path)
    assert set(read_budget(path).prices) == {"plain"}


@pytest.mark.parametrize("text", ["", "{", '{"python": "3.11"}', '{"python": "3.11", "prices": {"a": 1}}'])
def test_an_unreadable_budget_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "budget.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"budget\.json"):
        read_budget(path)
    with pytest.raises(BenchError, match=r"missing\.json"):
        read_budget(tmp_path / "missing.json")


def test_functions_are_compared_by_name_wherever_they_stand() -> None:
    before = [FunctionPrice("gateway.a", "f", 10, 100.0), FunctionPrice("gateway.a", "g", 20, 50.0)]
    now = [
        FunctionPrice("gateway.a", "f", 12, 130.0),
        FunctionPrice("gateway.a", "g", 30, 50.0),
        FunctionPrice("gateway.a", "h", 40, 60.0),
    ]
    assert grown_functions(before, now) == [("gateway.a:h", 0.0, 60.0), ("gateway.a:f", 100.0, 130.0)]
