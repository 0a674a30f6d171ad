"""What the scripts promise, in every kind of store: limits and leases."""

from typing import Any

import pytest

from gateway.config.models.price import Price
from gateway.tenancy.limits.limit_scripts import base_key
from tests.gateway.tenancy.limits.bench import BOOK, RESERVE, SETTLE, UNUSED, USED, Bench, Refusal, State, told

BIG = 10**6
PRICE = Price(input=1.0, output=2.0)

#: Each limit, the tokens of a request that uses up all of it, and the code of its refusal.
LIMITS: list[tuple[str, int, int, str]] = [
    ("rpm", 1, 1, "requests_per_minute"),
    ("tpm", 4, 3, "tokens_per_minute"),
    ("input_tpm", 7, 5, "input_tokens_per_minute"),
    ("output_tpm", 1, 7, "output_tokens_per_minute"),
    ("concurrency", 1, 1, "concurrent_requests"),
]
SCOPES = {"tenant": "", "key:k1": "of_key", "model:m": "of_model"}


def under(scope: str, **limits: Any) -> dict[str, Any]:
    """The limits, as those of one scope."""
    return {SCOPES[scope]: limits} if SCOPES[scope] else limits


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("limit", "given", "output", "code"), LIMITS)
def test_a_limit_admits_up_to_its_value_and_no_further(
    bench: Bench, scope: str, limit: str, given: int, output: int, code: str
) -> None:
    value = 1 if limit in ("rpm", "concurrency") else 7
    plan = bench.plan(**under(scope, **{limit: 3 * value}))
    for _ in range(3):
        bench.hold(plan, given, output)
    refused = bench.refused(plan, given, output)
    assert (refused.limit, refused.scope, refused.value, refused.used) == (code, scope, 3 * value, 3 * value)
    assert refused.asked == value
    assert bench.state(scope).in_flight == 3
    assert bench.refusals() == {f"{scope}|{code}": 1}


@pytest.mark.parametrize(("limit", "given", "output", "code"), LIMITS)
def test_a_refused_request_has_used_nothing_of_any_limit(
    bench: Bench, limit: str, given: int, output: int, code: str
) -> None:
    wide = {"rpm": BIG, "tpm": BIG, "input_tpm": BIG, "output_tpm": BIG, "concurrency": BIG}
    wide["budget"] = {"usd": 1000, "period": "day"}  # type: ignore[assignment]
    value = 1 if limit in ("rpm", "concurrency") else 7
    price = PRICE
    tight = [
        bench.plan(price=price, **{**wide, limit: value}, of_key=wide, of_model=wide),
        bench.plan(price=price, **wide, of_key={**wide, limit: value}, of_model=wide),
        bench.plan(price=price, **wide, of_key=wide, of_model={**wide, limit: value}),
    ]
    bench.hold(tight[0], given, output)
    before = (bench.states(list(SCOPES)), [bench.money(scope, 1) for scope in SCOPES], bench.hash("leases"))
    for plan in tight:
        for _ in range(2):
            assert bench.refused(plan, given, output).limit == code
    after = (bench.states(list(SCOPES)), [bench.money(scope, 1) for scope in SCOPES], bench.hash("leases"))
    assert before == after


def test_the_limit_that_keeps_a_request_waiting_longest_is_the_one_that_refuses(bench: Bench) -> None:
    plan = bench.plan(rpm=2, tpm=10, concurrency=1)
    first = bench.hold(plan, 1, 1)
    bench.settle(first)
    bench.wait(5)
    bench.hold(plan, 6, 2)
    refused = bench.refused(plan, 6, 2)
    # Requests have room once the first is out, tokens only with the second, the slot perhaps in a second.
    assert (refused.limit, refused.wait_ms) == ("tokens_per_minute", 61_000)
    assert bench.refused(plan, 1, 1).limit == "requests_per_minute"
    assert bench.refused(plan, 11, 1).wait_ms == -1


@pytest.mark.parametrize("into_second", [0, 1, 499, 999])
def test_a_window_is_free_again_after_61_seconds_and_says_when_to_the_millisecond(
    bench: Bench, into_second: int
) -> None:
    bench.now_ms += into_second
    plan = bench.plan(rpm=2, tpm=100)
    for _ in range(2):
        bench.settle(bench.hold(plan))
    refused = bench.refused(plan)
    assert refused.wait_ms == 61_000 - into_second
    bench.now_ms += refused.wait_ms - 1
    assert bench.refused(plan).wait_ms == 1
    bench.now_ms += 1
    held = bench.hold(plan)
    assert held.requests == [2, 1, 61_000]


def test_each_second_of_a_window_leaves_by_itself(bench: Bench) -> None:
    plan = bench.plan(tpm=100)
    for _ in range(4):
        bench.settle(bench.hold(plan, 20, 5), 20, 5)
        bench.wait(10)
    for asked, seconds in ((1, 21), (25, 21), (26, 31), (75, 41), (76, 51), (100, 51)):
        refused = bench.refused(plan, asked - 1, 1)
        assert refused.wait_ms == seconds * 1000, asked
    bench.wait(21)
    assert bench.state().input == 60
    bench.hold(plan, 24, 1)
    assert bench.refused(plan, 1, 1).wait_ms == 10_000


def test_never_more_than_the_limit_in_any_sixty_seconds(bench: Bench) -> None:
    plan = bench.plan(rpm=5)
    admitted: list[int] = []
    for step in range(400):
        bench.now_ms += (7919 * step) % 1500
        found = bench.ask(plan)
        if not isinstance(found, Refusal):
            admitted.append(bench.now_ms)
        assert len([at for at in admitted if at > bench.now_ms - 60_000]) <= 5
    # And not much less either: a window is of whole seconds, so a sixty-first is lost at most.
    assert len(admitted) >= (bench.now_ms - admitted[0]) // 62_000 * 5


def test_a_window_that_nobody_used_for_long_is_empty(bench: Bench) -> None:
    plan = bench.plan(rpm=1)
    bench.settle(bench.hold(plan))
    for seconds in (61, 100, 3600, 86_400):
        bench.wait(seconds)
        bench.settle(bench.hold(plan))
        assert bench.state() == State(1, 1, 1, 0)


def test_tokens_come_back_at_the_second_they_were_taken(bench: Bench) -> None:
    for wait in (0, 10, 59, 60, 61, 200):
        held = bench.hold(bench.plan(tpm=100, model=f"m{wait}"), 10, 90)
        assert bench.state() == State(1, 10, 90, 1)
        bench.wait(wait)
        assert bench.settle(held, 10, 5)
        in_window = wait <= 60
        assert bench.state() == State(int(in_window), 10 * in_window, 5 * in_window, 0), wait
        bench.wait(61 - wait if in_window else 0)
        assert bench.state() == State(0, 0, 0, 0)


def test_what_was_used_beyond_the_reservation_counts_when_it_is_known(bench: Bench) -> None:
    plan = bench.plan(output_tpm=100, tpm=100)
    held = bench.hold(plan, 10, 50, unknown=20)
    assert held.output == 20
    bench.wait(30)
    bench.settle(held, 12, 50)
    assert bench.state() == State(1, 12, 50, 0)
    bench.wait(31)
    assert bench.state() == State(0, 2, 30, 0)
    bench.wait(30)
    assert bench.state() == State(0, 0, 0, 0)


def test_a_release_gives_everything_back(bench: Bench) -> None:
    plan = bench.plan(rpm=1, tpm=100, concurrency=1, of_key={"rpm": 1}, of_model={"tpm": 50})
    for rejected in (False, True):
        for wait in (0, 20):
            held = bench.hold(plan, 10, 10)
            bench.wait(wait)
            assert bench.release(held, rejected=rejected)
            assert bench.states(list(SCOPES)) == [State(0, 0, 0, 0)] * 3
    bench.assert_nothing_open()


def test_a_lease_has_one_ending(bench: Bench) -> None:
    plan = bench.plan(rpm=10, tpm=1000, concurrency=5, price=PRICE, budget={"usd": 1})
    one, two = bench.hold(plan, 5, 5), bench.hold(plan, 5, 5)
    assert bench.settle(one, 5, 3)
    before = (bench.state(), bench.money(), bench.hash("holders")[b"n:h"])
    for again in range(3):
        assert not bench.settle(one, 5, 9 + again)
        assert not bench.release(one)
    assert not bench.end("h/nonsense", USED, 9, 9, 9)
    assert not bench.end("nobody/7", UNUSED, 0, 0, 0)
    assert before == (bench.state(), bench.money(), bench.hash("holders")[b"n:h"])
    answers = bench.batch([[SETTLE, two.id, USED, 5, 0, 1], [SETTLE, two.id, USED, 5, 0, 1]])
    assert answers == [1, 0]
    assert bench.state() == State(2, 10, 4, 0)
    bench.assert_nothing_open()


def test_a_reservation_that_comes_too_late_is_not_given(bench: Bench) -> None:
    plan = bench.plan(rpm=1)
    assert bench.ask(plan, deadline=bench.now_ms - 1) is None
    assert bench.state() == State(0, 0, 0, 0)
    bench.hold(plan, deadline=bench.now_ms)
    assert bench.refusals() == {}


def test_all_operations_of_a_batch_see_each_other(bench: Bench) -> None:
    plan = bench.plan(rpm=3, concurrency=2)
    first = bench.hold(plan)
    reserves = [[RESERVE, f"h/{number}", 1, 1, 1, 1, 128] for number in (101, 102, 103)]
    settled, *given = bench.batch([[SETTLE, first.id, USED, 1, 0, 1], *reserves], [plan])
    assert settled == 1
    one, two, three = (told("", answer) for answer in given)
    assert not isinstance(one, Refusal)
    assert not isinstance(two, Refusal)
    assert isinstance(three, Refusal)
    assert three.limit == "requests_per_minute"
    assert bench.state() == State(3, 3, 3, 2)


def test_a_batch_of_thousands(bench: Bench) -> None:
    plan = bench.plan(rpm=BIG, concurrency=BIG)
    given = bench.batch([[RESERVE, f"h/{number}", 1, 1, 1, 1, 1] for number in range(2500)], [plan])
    assert all(answer[0] == 1 for answer in given)
    assert bench.state() == State(2500, 2500, 2500, 2500)
    assert bench.batch([[SETTLE, f"h/{number}", USED, 1, 0, 1] for number in range(2500)]) == [1] * 2500
    bench.assert_nothing_open()


def test_a_small_limit_admits_a_first_small_request(bench: Bench) -> None:
    for limits in ({"tpm": 50}, {"output_tpm": 20}, {"tpm": 50, "output_tpm": 20}, {"tpm": 11}):
        plan = bench.plan(**limits, of_key=limits)
        held = bench.hold(plan, 10, 4000, unknown=128)
        assert held.output == min(limits.get("output_tpm", BIG), limits.get("tpm", BIG) - 10)
        bench.release(held)


def test_the_estimate_is_learned_for_each_model_and_bounded(bench: Bench) -> None:
    one, two = bench.plan(rpm=BIG, model="one"), bench.plan(rpm=BIG, model="two")
    held = bench.hold(one, 5, 4000)
    assert held.output == 128
    assert bench.hold(one, 5, 30).output == 30
    bench.settle(held, 5, 500)
    assert bench.hold(one, 5, 4000).output == 500
    assert bench.hold(two, 5, 4000).output == 128
    held = bench.hold(one, 5, 4000)
    bench.settle(held, 5, 0)
    bench.release(bench.hold(one, 5, 4000))
    assert bench.hold(one, 5, 4000).output == 500, "an answer without output teaches nothing"
    bench.settle(bench.hold(one, 5, 4000, n=4), 5, 400)
    assert bench.hold(one, 5, 4000).output == 460, "a tenth of the way to the latest, for each sequence"
    assert bench.hold(one, 5, 4000, n=3).output == 1380
    assert bench.hold(one, 5, 1000, n=3).output == 1000


@pytest.mark.parametrize(
    ("limits", "given", "most", "code", "asked"),
    [
        ({"tpm": 10}, 10, 1, "tokens_per_minute", 11),
        ({"tpm": 10}, 500, 1, "tokens_per_minute", 501),
        ({"input_tpm": 10}, 11, 1, "input_tokens_per_minute", 11),
    ],
)
def test_a_request_larger_than_a_limit_is_told_so(
    bench: Bench, limits: dict[str, Any], given: int, most: int, code: str, asked: int
) -> None:
    refused = bench.refused(bench.plan(**limits), given, most)
    assert (refused.limit, refused.asked, refused.wait_ms) == (code, asked, -1)


def test_headroom_is_of_the_tightest_limit(bench: Bench) -> None:
    plan = bench.plan(rpm=10, tpm=1000, output_tpm=50, of_key={"rpm": 4}, of_model={"input_tpm": 500})
    held = bench.hold(plan, 100, 20)
    assert held.requests == [4, 3, 61_000]
    assert held.tokens == [50, 30, 61_000]
    bench.wait(10)
    held = bench.hold(plan, 390, 1)
    assert held.tokens == [500, 10, 61_000]
    bench.wait(0.25)
    answer = bench.batch([[RESERVE, "h/x", 1, 300, 1, 1, 1]], [plan])[0]
    assert answer[0] == 0
    assert answer[2:] == [4, 2, 60_750, 500, 10, 60_750]
    assert bench.hold(bench.plan(concurrency=9)).requests == [0, 0, 0]


def test_a_window_with_nothing_in_it_needs_no_reset(bench: Bench) -> None:
    plan = bench.plan(rpm=2, tpm=5)
    bench.release(bench.hold(plan))
    answer = bench.batch([[RESERVE, "h/x", 1, 9, 1, 1, 1]], [plan])[0]
    assert answer[2:] == [2, 2, 0, 5, 5, 0]


def test_scopes_do_not_touch_each_other(bench: Bench) -> None:
    mine = bench.plan(key="a", rpm=BIG, of_key={"concurrency": 1})
    other = bench.plan(key="b", rpm=BIG, of_key={"concurrency": 1})
    bench.hold(mine)
    assert bench.refused(mine).scope == "key:a"
    bench.hold(other)
    assert bench.state("key:a").in_flight == bench.state("key:b").in_flight == 1
    assert bench.state("tenant").in_flight == 2


def test_a_lease_ends_under_the_limits_it_began_with(bench: Bench) -> None:
    held = bench.hold(bench.plan(rpm=5, concurrency=3))
    changed = bench.plan(tpm=1000, of_key={"rpm": 9})
    later = bench.hold(changed)
    bench.settle(held)
    bench.settle(later)
    assert bench.states(["tenant", "key:k1"]) == [State(2, 2, 2, 0), State(1, 1, 1, 0)]
    bench.assert_nothing_open()


def test_a_plan_is_kept_for_as_long_as_it_has_leases(bench: Bench) -> None:
    plan = bench.plan(rpm=5)
    bench.hold(plan)
    key = f"{bench.base}:plan:{plan.digest}"
    bench.client.expire(key, 5)
    held = bench.hold(plan)
    assert bench.client.ttl(key) > 6 * 86_400
    bench.client.delete(key)
    assert not bench.settle(held), "what it counted in is unknown, and nothing else suffers"
    bench.hold(plan)
    assert bench.hash("holders")[b"n:h"] == b"2"


def test_booked_use_counts_once(bench: Bench) -> None:
    plan = bench.plan(rpm=5, tpm=1000, price=PRICE, budget={"usd": 1, "period": "day"}, of_key={"tpm": 500})
    booking = [BOOK, 7, 1, 3, 100, 20, 50, 0, 0]
    assert bench.batch([booking], [plan]) == [1]
    before = (bench.states(["tenant", "key:k1"]), bench.money("tenant", 1))
    assert before[0] == [State(3, 100, 50, 0), State(3, 100, 50, 0)]
    assert before[1].spent == 100 * 1000 + 50 * 2000
    assert bench.batch([booking, [BOOK, 6, 1, 3, 100, 20, 50, 0, 0]], [plan]) == [0, 0]
    assert before == (bench.states(["tenant", "key:k1"]), bench.money("tenant", 1))
    assert bench.batch([[BOOK, 7, 1, 1, 1, 0, 1, 0, 0]], [plan], holder="other") == [1]
    assert bench.batch([[BOOK, 8, 1, 1, 1, 0, 1, 0, 0]], [plan]) == [1]
    assert bench.state().requests == 5


def test_every_key_of_a_tenant_is_its_own_and_has_an_end(bench: Bench) -> None:
    plan = bench.plan(rpm=9, tpm=9, concurrency=9, price=PRICE, budget={"usd": 1})
    bench.settle(bench.hold(plan, 1, 1), 1, 1)
    bench.batch([[BOOK, 1, 1, 1, 1, 0, 1, 0, 0]], [plan])
    bench.refused(plan, 100, 1)
    kept = {key.decode().removeprefix(bench.base) for key in bench.all_keys() if bench.client.ttl(key) == -1}
    # Of these there are as many fields as workers, models and limits; the others grow with time.
    assert kept <= {":holders", ":learned", ":refused"}
    assert bench.base == base_key(bench.tenant)
    assert all(f"{{t:{bench.tenant}}}".encode() in key for key in bench.all_keys())


def test_a_busy_window_is_written_and_read_once(bench: Bench) -> None:
    """A guard on the cost of a batch: calls into the store, however many operations there are."""
    plan = bench.plan(rpm=BIG, tpm=BIG, concurrency=BIG, of_key={"rpm": BIG}, price=PRICE, budget={"usd": 1000})

    def calls(size: int) -> int:
        before = _commands(bench)
        bench.batch([[RESERVE, f"h/{size}-{number}", 1, 5, 5, 1, 5] for number in range(size)], [plan])
        settles = [[SETTLE, f"h/{size}-{number}", USED, 5, 0, 2] for number in range(size)]
        bench.batch(settles)
        return _commands(bench) - before

    calls(1)
    assert calls(1) <= 40
    assert calls(200) <= calls(1) + 4


def _commands(bench: Bench) -> int:
    stats = bench.client.info("commandstats")
    return sum(found["calls"] for name, found in stats.items() if name not in ("cmdstat_info", "cmdstat_evalsha"))
