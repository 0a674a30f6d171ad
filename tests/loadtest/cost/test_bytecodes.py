import pytest

from loadtest.cost.bytecode_counter import FunctionLaps
from loadtest.cost.bytecodes import Baseline, FunctionPrice, Laps, baseline, by_package, by_part, prices

NO_LOAD = Baseline(3.0, 0, {})


def laps(root: str, counts: list[int], module: str = "gateway.a", function: str = "f") -> FunctionLaps:
    return FunctionLaps(root, module, function, 1, counts)


def cost(rows: list[FunctionLaps], base: Baseline = NO_LOAD, requests: int = 1) -> float:
    asked = list(range(1, len(rows[0].laps) - 1))
    request, token = prices(rows, base, Laps(3.0, requests, asked))
    assert token == []
    return sum(price.bytecodes for price in request)


def test_what_every_request_does_costs_what_it_costs_in_most_laps() -> None:
    assert cost([laps("serve", [100, 100, 900, 100, 0])]) == 100


def test_what_a_few_requests_do_does_not_count() -> None:
    rows = [laps("serve", [100] * 8 + [0]), laps("serve", [0, 0, 700, 0, 0, 0, 0, 0, 0], function="learn")]
    assert cost(rows) == 100


def test_what_is_put_off_counts_by_its_sum() -> None:
    # Records are folded twice during the laps, the rest of them after the last.
    assert cost([laps("fold", [0, 40, 0, 0, 40, 0, 0, 0, 0]), laps("serve", [10] * 8 + [0])]) == 10 + 80 / 8
    # With so long laps that there is a fold in each, the last lap's is still done after it.
    assert cost([laps("fold", [0, 80, 80, 80, 80])], requests=8) == 10


def test_settling_after_the_last_answer_is_work_of_each_request() -> None:
    assert cost([laps("settle", [50, 100, 100, 100, 50])]) == 100


def test_what_is_done_as_often_without_load_does_not_count() -> None:
    base = Baseline(3.0, 0, {"poll": 1000})
    assert cost([laps("poll", [300, 300, 300, 300, 300])], base) == 0
    assert cost([laps("poll", [300, 300, 300, 300, 0]), laps("serve", [5, 5, 5, 5, 0])], base) == 5


def test_what_a_timer_does_without_load_is_taken_off_what_is_put_off() -> None:
    base = Baseline(6.0, 0, {"fold": 200})
    assert cost([laps("fold", [0, 0, 0, 0, 500])], base) == pytest.approx((500 - 100) / 4)


def test_requests_of_the_baseline_are_taken_off_too() -> None:
    base = Baseline(3.0, 2, {"fold": 200})
    # 8 requests, and 2 of the baseline's, which cost 100 each.
    assert cost([laps("fold", [0] * 8 + [800])], base) == pytest.approx((800 - 200) / (8 - 2))


def test_tokens_cost_what_is_done_between_the_edges_of_undisturbed_laps() -> None:
    # Three laps of 4 streams: the second one is disturbed.
    rows = [laps("serve", [50, 300, 50, 10, 10, 10, 60, 330, 70, 0]), laps("fold", [0] * 9 + [120], function="g")]
    request, token = prices(rows, NO_LOAD, Laps(3.0, 4, [0, 2], [30, 10, 30]))
    assert {price.function: price.bytecodes for price in token} == {"f": 11.0}
    assert {price.function: price.bytecodes for price in request} == {"f": 460 / 4, "g": 120 / 12}


def test_what_the_measurement_itself_does_in_the_worker_does_not_count() -> None:
    rows = [laps("serve", [9, 9, 0]), laps("serve", [5, 5, 0], module="loadtest.cost.counter_server")]
    assert cost(rows) == 9


def test_a_baseline_is_the_sum_of_a_roots_functions() -> None:
    found = baseline([laps("poll", [1, 2]), laps("poll", [3], function="g"), laps("serve", [4])], 3.0, 1)
    assert found == Baseline(3.0, 1, {"poll": 6, "serve": 4})


@pytest.mark.parametrize(
    ("module", "package", "part"),
    [
        ("gateway.api.openai.infer", "gateway", "gateway.api"),
        ("protos", "protos", "protos"),
        ("routing.policies", "routing", "routing.policies"),
        ("asyncio.streams", "libraries", "asyncio"),
        ("gatewayish.other", "libraries", "gatewayish"),
        ("", "libraries", ""),
    ],
)
def test_a_function_belongs_to_its_modules_package(module: str, package: str, part: str) -> None:
    found = FunctionPrice(module, "f", 1, 2.0)
    assert (found.package, found.part) == (package, part)
    assert by_package([found])[package] == 2.0
    assert by_part([found, found]) == {part: 4.0}
