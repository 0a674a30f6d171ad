from collections.abc import Callable, Sequence

import pytest

from loadtest.cost import instructions, measure
from loadtest.cost.bytecodes import FunctionPrice
from loadtest.cost.measure import left_out
from loadtest.cost.price import Price, Prices, summed
from loadtest.cost.scenarios import Scenario, named
from loadtest.load.processes import BenchError


def test_kinds_of_counts_are_put_together_and_gateways_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, list[str]]] = []

    def counts(kind: str) -> Callable[[Sequence[Scenario], Callable[[str], None]], Prices]:
        def count(scenarios: Sequence[Scenario], at: Callable[[str], None]) -> Prices:
            begun.append((kind, [scenario.name for scenario in scenarios]))
            if kind == "bytecodes":
                return {one.name: Price(summed([FunctionPrice("gateway.a", "f", 1, 3.0)])) for one in scenarios}
            return {one.name: Price(counts={kind: 1.0}) for one in scenarios}

        return count

    monkeypatch.setattr(measure, "KINDS", {kind: counts(kind) for kind in measure.KINDS})
    monkeypatch.setattr(instructions, "missing", lambda: None)
    shown: list[tuple[float, int]] = []
    found = measure.measure(
        named("plain,plain stream,tools"),
        ["bytecodes", "wire", "instructions"],
        lambda _, done, of: shown.append((done, of)),
    )
    assert [names for kind, names in begun if kind == "wire"] == [["plain", "plain stream"], ["tools"]]
    assert shown[-1][1] == 6
    assert set(found) == {"plain", "plain stream", "tools"}
    for price in found.values():
        assert price.bytecodes is not None and price.bytecodes.total == 3.0
        assert price.counts == {"wire": 1.0, "instructions": 1.0}


def test_what_this_machine_cannot_count_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "missing", lambda: "instructions: there is no `valgrind`")
    monkeypatch.setattr(measure, "KINDS", {"wire": lambda group, at: {one.name: Price() for one in group}})
    assert set(measure.measure(named("plain"), ["wire", "instructions"])) == {"plain"}
    assert "instructions: there is no `valgrind`" in left_out(["wire", "instructions"])
    assert "instructions: there is no `valgrind`" not in left_out(["wire"])
    with pytest.raises(BenchError, match="valgrind"):
        measure.measure(named("plain"), ["instructions"])
