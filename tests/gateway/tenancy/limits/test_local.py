"""What one worker counts alone, under a clock that stands still until it is moved."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.tenancy.limits.limiter import Ask
from gateway.tenancy.limits.local import MAX_SCOPES, LocalLimits, LocalWindow
from tests.gateway.tenancy.limits.bench import plan_of

LIMITS: list[tuple[str, int, int, str]] = [
    ("rpm", 1, 1, "requests_per_minute"),
    ("tpm", 4, 3, "tokens_per_minute"),
    ("input_tpm", 7, 5, "input_tokens_per_minute"),
    ("output_tpm", 1, 7, "output_tokens_per_minute"),
    ("concurrency", 1, 1, "concurrent_requests"),
]


class World:
    def __init__(self, **limits: Any) -> None:
        self.now = 1000.0
        self.limits = LocalLimits(lambda: self.now)
        self.plan = plan_of("acme", **limits)

    def take(self, tokens: int = 1, output: int = 1) -> Any:
        return self.limits.take(Ask(self.plan, tokens, output, 1), output)

    def end(self, taken: int, tokens: int, output: int, used: tuple[int, int, int]) -> None:
        self.limits.give_back(taken, Ask(self.plan, tokens, output, 1), output, used)

    def window(self) -> LocalWindow:
        return self.limits._window("acme", "tenant", int(self.now))


@pytest.mark.parametrize(("limit", "tokens", "output", "code"), LIMITS)
def test_a_limit_admits_up_to_its_value_and_no_further(limit: str, tokens: int, output: int, code: str) -> None:
    world = World(**{limit: 3 * (1 if limit in ("rpm", "concurrency") else 7)})
    assert [world.take(tokens, output) for _ in range(3)] == [1000] * 3
    assert world.take(tokens, output)[0] == code


def test_all_or_nothing() -> None:
    world = World(rpm=9, of_key={"rpm": 1})
    world.take()
    for _ in range(3):
        assert world.take()[1] == "key:k1"
    assert world.window().totals == [1, 1, 1]
    assert world.window().in_flight == 1


def test_a_window_slides_and_tells_when() -> None:
    world = World(rpm=1)
    world.take()
    world.now += 20
    assert world.take()[5] == 41_000
    world.now += 40.9
    assert world.take()[5] == 1000
    world.now += 0.1
    assert world.take() == 1061


def test_a_refund_is_of_the_second_of_the_reservation() -> None:
    world = World(tpm=200)
    taken = world.take(10, 90)
    world.now += 50
    world.end(taken, 10, 90, (1, 10, 5))
    assert world.window().totals == [1, 10, 5]
    world.now += 11
    # All of it is out of the window now; a refund at a later second would leave it owing tokens.
    assert world.window().totals == [0, 0, 0]
    assert world.take(10, 190) == 1061
    assert world.take(1, 1)[0] == "tokens_per_minute"


def test_a_request_larger_than_a_limit_is_told_so() -> None:
    assert World(tpm=10).take(10, 1)[5] == -1


def test_scopes_are_bounded() -> None:
    world = World(rpm=1)
    for number in range(MAX_SCOPES + 10):
        world.limits.take(Ask(plan_of(f"t{number}", rpm=1), 1, 1, 1), 1)
    assert len(world.limits._windows.items()) == MAX_SCOPES


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 50), st.integers(1, 50)),
            st.tuples(st.just("end"), st.integers(0, 100), st.integers(0, 100)),
            st.tuples(st.just("release"), st.just(0), st.just(0)),
            st.tuples(st.just("wait"), st.integers(0, 70), st.just(0)),
        ),
        max_size=60,
    )
)
def test_totals_are_what_was_charged_in_the_last_minute(steps: list[tuple[str, int, int]]) -> None:
    world = World(rpm=20, tpm=600, concurrency=6)
    charged: dict[int, list[int]] = {}
    open_ones: list[tuple[int, int, int]] = []

    def count(second: int, *counts: int) -> None:
        row = charged.setdefault(second, [0, 0, 0])
        row[:] = [before + more for before, more in zip(row, counts, strict=True)]

    for what, one, two in steps:
        now = int(world.now)
        if what == "wait":
            world.now += one
        elif what == "take":
            taken = world.take(one, two)
            if isinstance(taken, int):
                open_ones.append((taken, one, two))
                count(now, 1, one, two)
        elif open_ones:
            taken, tokens, output = open_ones.pop(0)
            used = (1, one, two) if what == "end" else (0, 0, 0)
            world.end(taken, tokens, output, used)
            more = [after - before for after, before in zip(used, (1, tokens, output), strict=True)]
            if taken >= now - 60:
                count(taken, *(min(0, change) for change in more))
            count(now, *(max(0, change) for change in more))
        now = int(world.now)
        rows = [row for second, row in charged.items() if second >= now - 60]
        window = world.window()
        assert window.totals == [sum(row[kind] for row in rows) for kind in range(3)]
        assert min(window.totals) >= 0
        assert window.in_flight == len(open_ones)
