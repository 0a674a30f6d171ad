from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from loadtest.cost import count_outside
from loadtest.cost.scenarios import SCENARIOS, Scenario


class Worker:
    """A worker on a clock of its own: 10 calls a second whatever it does, 3 a request, and 1 a token of its answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
        self.now = 100.0
        self.calls = 0.0
        self.scenario = scenario
        self.tokens = {"short": 20, "long": 40}
        self.lengths = (20, 40)
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(count_outside, "time", clock)
        monkeypatch.setattr(count_outside, "wait_for_phase", self.wait)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.calls += 10 * seconds

    def wait(self, seconds: float = 0.0, since: float | None = None) -> float:
        due = self.now + 0.25 if since is None else since + seconds
        self.sleep(due - self.now)
        return due

    def lap(self, model: str) -> None:
        self.calls += self.scenario.clients * (3 + self.tokens.get(model, 0))
        self.sleep(0.1)

    def count(self, work: Callable[[], None]) -> Mapping[str, float]:
        before = self.calls
        work()
        return {"calls": self.calls - before}


@pytest.mark.parametrize("name", ["plain", "plain stream"])
def test_what_a_worker_does_anyway_is_no_part_of_the_price(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (scenario,) = (one for one in SCENARIOS if one.name == name)
    worker = Worker(monkeypatch, scenario)
    counted = count_outside._counted(worker.count, worker, 7)  # type: ignore[arg-type]
    whole = (
        [{"calls": pytest.approx(23.0)}, {"calls": pytest.approx(43.0)}]
        if scenario.stream
        else [{"calls": pytest.approx(3.0)}]
    )
    assert counted == whole
    found: dict[str, object] = {}
    count_outside._enter(found, worker, [counted, [{"bytes": 5.0}] * len(counted)])  # type: ignore[arg-type]
    prices = {price: getattr(of, "counts", None) for price, of in found.items()}
    if scenario.stream:
        assert prices == {
            "plain stream request": pytest.approx({"calls": 3.0, "bytes": 5.0}),
            "plain stream token": pytest.approx({"calls": 1.0, "bytes": 0.0}),
        }
    else:
        assert prices == {"plain": pytest.approx({"calls": 3.0, "bytes": 5.0})}
