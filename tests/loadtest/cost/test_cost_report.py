import io

from rich.console import Console

from loadtest.cost.budget import Overdraft
from loadtest.cost.bytecodes import LIBRARIES, PACKAGES, FunctionPrice
from loadtest.cost.cost_report import print_functions, print_grown, print_overdrafts, print_prices
from loadtest.cost.price import Bytecodes, Price, Prices, summed


def shown(print_it: object, *arguments: object) -> str:
    out = Console(file=io.StringIO(), width=120)
    print_it(*arguments, out)  # type: ignore[operator]
    text = out.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def prices(gateway: float) -> Prices:
    functions = [FunctionPrice("gateway.api.openai.infer", "infer", 14, gateway)]
    return {"plain": Price(summed(functions)), "plain stream token": Price(counts={"system calls": 2.5})}


def test_each_kind_of_count_has_a_table_if_there_is_one() -> None:
    text = shown(print_prices, prices(6054.4))
    assert "Bytecodes" in text and "6,054" in text
    assert all(package in text for package in (*PACKAGES, LIBRARIES))
    assert "Calls and bytes" in text and "2.5" in text
    assert "Instructions" not in text
    assert "Bytecodes" not in shown(print_prices, {"plain": Price(counts={"instructions": 1.0})})


def test_functions_are_listed_with_their_line() -> None:
    text = shown(print_functions, prices(120.0), 5)
    assert "gateway.api.openai.infer" in text and "infer:14" in text and "120.0" in text


def test_functions_that_grew_are_listed_with_what_they_cost_before() -> None:
    text = shown(print_grown, prices(100.0), prices(130.0))
    assert "gateway.api.openai.infer:infer" in text and "100.0" in text and "130.0" in text
    empty: Prices = {"plain": Price(Bytecodes(0.0, {}, {}, []))}
    assert "infer" not in shown(print_grown, prices(100.0), empty)


def test_what_is_over_the_budget_has_a_line_each() -> None:
    text = shown(print_overdrafts, [Overdraft("plain", "bytecodes of routing", 100.0, 110.0)])
    assert text == "over the budget: plain: bytecodes of routing: 100.0 -> 110.0 (+10.0%)\n"
