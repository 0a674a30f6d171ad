import heapq
import math
import random
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scheduling import fair_queue
from gateway.scheduling.fair_queue import Entry, FairQueue, cost_of

Item = tuple[str, int]
NAMES = st.sampled_from("abcd")
COSTS = st.integers(1, 50)
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 0.5}


def push(queue: FairQueue[Item], tenant: str, cost: float, number: int = 0) -> Entry[Item]:
    return queue.push(tenant, WEIGHTS.get(tenant, 1.0), cost, (tenant, number))


def served(
    queue: FairQueue[Item], most: int = 10**6, refused: Callable[[Item], bool] = lambda item: False
) -> list[Item]:
    """What is taken, in order, of at most so many; a refusal after that changes nothing."""
    taken: list[Item] = []

    def take(item: Item) -> bool:
        if len(taken) == most or refused(item):
            return False
        taken.append(item)
        return True

    queue.serve(take)
    return taken


def test_an_output_token_costs_two_input_tokens() -> None:
    assert cost_of(100, 30) == 160


def test_tenants_take_turns_by_weight_and_each_ones_requests_stay_in_order() -> None:
    queue: FairQueue[Item] = FairQueue()
    for number in range(8):
        push(queue, "a", 10, number)
    for number in range(8):
        push(queue, "b", 10, number)
    order = served(queue, 9)
    assert [name for name, _ in order].count("b") == 6
    assert [number for name, number in order if name == "a"] == [0, 1, 2]
    assert (queue.waiting, queue.cost, queue.depths()) == (7, 70, {"a": 5, "b": 2})


def test_a_tenant_with_large_requests_is_served_less_often() -> None:
    queue: FairQueue[Item] = FairQueue()
    for number in range(20):
        queue.push("large", 1.0, 30_000, ("large", number))
        for k in range(50):
            queue.push("small", 1.0, 600, ("small", 50 * number + k))
    names = [name for name, _ in served(queue, 102)]
    assert names.count("large") == 2


def test_who_comes_back_has_gained_nothing_by_being_away() -> None:
    queue: FairQueue[Item] = FairQueue()
    push(queue, "x", 10)
    for number in range(100):
        push(queue, "y", 10, number)
    served(queue, 51)  # x has been served once, and has long been passed in virtual time
    for number in range(5):
        push(queue, "x", 10, number)
    assert [name for name, _ in served(queue, 8)].count("x") == 4


def test_who_leaves_and_comes_back_at_once_does_not_escape_what_it_was_charged() -> None:
    queue: FairQueue[Item] = FairQueue()
    push(queue, "x", 1000)
    for number in range(100):
        push(queue, "y", 10, number)
    served(queue, 2)
    push(queue, "x", 10)
    assert [name for name, _ in served(queue, 60)] == ["y"] * 60


@pytest.mark.parametrize(("more", "first"), [(500, "y"), (-80, "x")])
@pytest.mark.parametrize("waits", [True, False])
def test_a_corrected_charge_moves_the_next_turn(more: float, first: str, waits: bool) -> None:
    queue: FairQueue[Item] = FairQueue()
    push(queue, "x", 100)
    for number in range(20):
        push(queue, "y", 30, number)
    served(queue, 2)  # x's next turn is at 100, y's at 30
    if waits:
        push(queue, "x", 10)
    queue.charge("x", 1.0, more)
    if not waits:
        push(queue, "x", 10)
    names = [name for name, _ in served(queue, 4)]
    assert ("x" in names) == (first == "x")


def test_a_charge_is_remembered_of_a_tenant_that_was_forgotten_and_waived_when_nobody_waits() -> None:
    queue: FairQueue[Item] = FairQueue()
    queue.charge("x", 1.0, 1e6)
    for number in range(20):
        push(queue, "y", 10, number)
    push(queue, "x", 10)
    assert ("x", 0) in served(queue, 2)
    queue.charge("z", 1.0, -50)
    queue.charge("z", 1.0, 100)
    push(queue, "z", 10)
    assert {name for name, _ in served(queue, 9)} == {"y"}
    assert ("z", 0) in served(queue, 3)


def test_who_finds_no_room_keeps_its_turn_but_saves_up_no_more_than_one() -> None:
    queue: FairQueue[Item] = FairQueue()
    for number in range(50):
        push(queue, "x", 10, number)
        push(queue, "y", 10, number)
    assert {name for name, _ in served(queue, 30, lambda item: item[0] == "x")} == {"y"}
    names = [name for name, _ in served(queue, 10)]
    assert names[0] == "x"
    assert names.count("x") <= 6


def test_a_caller_that_breaks_down_loses_nobody() -> None:
    queue: FairQueue[Item] = FairQueue()
    for name in "abc":
        push(queue, name, 10)

    def take(item: Item) -> bool:
        if item[0] == "b":
            raise RuntimeError
        return item[0] == "c"

    with pytest.raises(RuntimeError):
        queue.serve(take)
    assert {name for name, _ in served(queue)} >= {"a", "b"}


def test_serving_one_alone_counts_like_any_other() -> None:
    queue: FairQueue[Item] = FairQueue()
    for number in range(5):
        push(queue, "x", 10, number)
    alone = push(queue, "y", 10)
    queue.serve_alone(alone)
    assert (queue.waiting, alone.waiting, queue.depths()) == (5, False, {"x": 5})
    push(queue, "y", 10, 1)
    assert served(queue, 1) == [("x", 0)]


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("push"), NAMES, COSTS),
        st.tuples(st.just("serve"), st.integers(0, 4), st.sets(NAMES, max_size=3)),
        st.tuples(st.just("remove"), st.integers(0, 60), st.none()),
        st.tuples(st.just("charge"), NAMES, st.integers(-40, 40)),
    ),
    max_size=120,
)


@given(MOVES)
def test_whatever_happens_each_tenant_is_first_in_first_out_and_no_work_is_left_that_fits(moves: list[tuple]) -> None:  # type: ignore[type-arg]
    queue: FairQueue[Item] = FairQueue()
    lines: dict[str, list[Entry[Item]]] = defaultdict(list)
    everything: list[Entry[Item]] = []
    for number, (kind, one, other) in enumerate(moves):
        if kind == "push":
            entry = push(queue, one, other, number)
            lines[one].append(entry)
            everything.append(entry)
        elif kind == "remove" and one < len(everything):
            entry = everything[one]
            queue.remove(entry)
            if entry in lines[entry.item[0]]:
                lines[entry.item[0]].remove(entry)
        elif kind == "charge":
            queue.charge(one, WEIGHTS[one], other)
        elif kind == "serve":
            expected = {name: [entry.item for entry in line] for name, line in lines.items()}
            taken = served(queue, one, lambda item, blocked=other: item[0] in blocked)  # type: ignore[misc]
            free = sum(len(line) for name, line in expected.items() if name not in other)
            assert len(taken) == min(one, free)
            for name, item_number in taken:
                assert expected[name].pop(0) == (name, item_number)
                lines[name].pop(0)
        waiting = [entry for line in lines.values() for entry in line]
        assert queue.waiting == len(waiting)
        assert queue.cost == pytest.approx(sum(entry.cost for entry in waiting))
        assert queue.depths() == {name: len(line) for name, line in lines.items() if line}
    assert len(served(queue)) == sum(len(line) for line in lines.values())
    assert queue.waiting == 0
    assert queue._tenants == {}


@given(
    st.lists(COSTS, min_size=30, max_size=60),
    st.lists(COSTS, min_size=30, max_size=60),
    st.lists(st.tuples(NAMES, COSTS), max_size=40),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_over_any_stretch_two_that_wait_get_what_their_weights_say(
    mine: list[int], yours: list[int], others: list[tuple[str, int]], weight: float
) -> None:
    queue: FairQueue[Item] = FairQueue()
    for number, cost in enumerate(mine):
        queue.push("x", 1.0, cost, ("x", number))
    for number, cost in enumerate(yours):
        queue.push("y", weight, cost, ("y", number))
    for name, cost in others:
        push(queue, name, cost)
    got = {"x": [0.0], "y": [0.0]}
    while queue.depth("x") > 1 and queue.depth("y") > 1:
        ((name, number),) = served(queue, 1)
        got["x"].append(got["x"][-1] + (mine[number] if name == "x" else 0))
        got["y"].append(got["y"][-1] + (yours[number] / weight if name == "y" else 0))
    ahead = [one - other for one, other in zip(got["x"], got["y"], strict=True)]
    assert max(ahead) - min(ahead) <= max(mine) + max(yours) / weight + 1e-6


@given(st.lists(st.tuples(NAMES, COSTS), min_size=1, max_size=40), st.data())
def test_what_others_take_back_again_changes_nobodys_order(items: list[tuple[str, int]], data: st.DataObject) -> None:
    extra = data.draw(st.lists(st.tuples(st.integers(0, len(items)), st.sampled_from("vw"), COSTS), max_size=20))
    plain: FairQueue[Item] = FairQueue()
    mixed: FairQueue[Item] = FairQueue()
    taken_back = []
    for number, (name, cost) in enumerate(items):
        for at, other, other_cost in extra:
            if at == number:
                taken_back.append(push(mixed, other, other_cost))
        push(plain, name, cost, number)
        push(mixed, name, cost, number)
    for entry in taken_back:
        mixed.remove(entry)
    assert served(mixed) == served(plain)


@given(st.lists(COSTS, min_size=1, max_size=30), st.integers(1, 300))
def test_nobody_waits_for_ever_beside_a_tenant_that_never_runs_out(costs: list[int], big: int) -> None:
    queue: FairQueue[Item] = FairQueue()
    number = 0
    queue.push("x", 1.0, big, ("x", 0))
    while queue.depth("x"):
        for cost in costs:
            queue.push("y", 1.0, cost, ("y", number))
        served(queue, 1)
        number += 1
        assert number < 10


def test_tenants_without_waiting_work_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MAX_IDLE", 50)
    queue: FairQueue[Item] = FairQueue()
    rng = random.Random(1)
    for number in range(3000):
        queue.push(f"t{number}", 1.0, rng.randrange(1, 50), (f"t{number}", 0))
        if number >= 20:
            served(queue, 1)
        if number % 3 == 0:
            queue.charge(f"t{rng.randrange(number + 1)}", 1.0, rng.randrange(-50, 50))
    assert queue.waiting == 20
    assert len(queue._tenants) <= 70
    assert len(queue._next) + len(queue._idle) <= 100


@pytest.mark.parametrize("tenants", [16, 256, 4096])
def test_the_work_of_an_operation_grows_with_the_logarithm_of_the_tenants(
    tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counted(float):
        comparisons = 0

        def __lt__(self, other: float) -> bool:
            Counted.comparisons += 1
            return float(self) < float(other)

    def heappush(heap: list[tuple[float, ...]], item: tuple[float, ...]) -> None:
        heapq.heappush(heap, (Counted(item[0]), *item[1:]))

    monkeypatch.setattr(fair_queue, "heapq", SimpleNamespace(heappush=heappush, heappop=heapq.heappop))
    queue: FairQueue[Item] = FairQueue()
    rng = random.Random(tenants)
    entries = [queue.push(f"t{k}", 1.0, rng.uniform(1, 100), (f"t{k}", i)) for i in range(3) for k in range(tenants)]
    Counted.comparisons, operations = 0, 2000
    for number in range(operations):
        k = rng.randrange(tenants)
        queue.push(f"t{k}", 1.0, rng.uniform(1, 100), (f"t{k}", number))
        queue.charge(f"t{k}", 1.0, rng.uniform(-5, 5))
        queue.remove(entries[rng.randrange(len(entries))])
        alone = queue.push(f"u{number}", 1.0, 1.0, ("u", number))
        queue.serve_alone(alone)
    assert Counted.comparisons / (5 * operations) <= 4 * math.log2(tenants) + 8
