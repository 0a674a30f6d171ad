"""What becomes of leases whose holder is silent, and of everything when the store's clock jumps or its data is lost."""

import pytest

from gateway.config.models.price import Price
from tests.gateway.tenancy.limits.bench import RESERVE, SETTLE, TTL_MS, USED, Bench, State

PRICE = Price(input=1.0, output=2.0)


def test_a_silent_holders_leases_end_once_as_if_all_that_was_reserved_was_used(bench: Bench) -> None:
    plan = bench.plan(rpm=100, tpm=10_000, concurrency=2, price=PRICE, budget={"usd": 1})
    dead, live = bench.hold(plan, 10, 30, holder="dead"), bench.hold(plan, 10, 30, holder="live")
    for _ in range(4):
        bench.wait(3)
        bench.touch("live")
    assert bench.state().in_flight == 2
    assert bench.refused(plan, holder="live").limit == "concurrent_requests"
    bench.wait(1.001)
    bench.touch("live")
    assert bench.state() == State(2, 20, 60, 1)
    assert bench.hash("holders").keys() == {b"next", b"n:live", b"e:live"}
    assert bench.money().spent == 10 * 1000 + 30 * 2000
    assert not bench.settle(dead, 10, 1), "who comes back too late changes nothing"
    assert bench.settle(live, 10, 1)
    assert bench.state() == State(2, 20, 31, 0)
    assert bench.money().spent == 20 * 1000 + 31 * 2000
    bench.assert_nothing_open()


def test_a_swept_lease_that_is_settled_in_the_same_batch_ends_once(bench: Bench) -> None:
    plan = bench.plan(concurrency=9)
    held, other = bench.hold(plan, holder="dead"), bench.hold(plan, holder="live")
    for _ in range(4):
        bench.wait(3)
        bench.touch("live")
    bench.wait(1.001)
    answers = bench.batch([[SETTLE, held.id, USED, 1, 0, 1]], holder="live")
    assert answers == [0]
    assert bench.state().in_flight == 1
    bench.settle(other)
    bench.assert_nothing_open()


def test_who_speaks_is_alive(bench: Bench) -> None:
    plan = bench.plan(concurrency=9)
    held = bench.hold(plan)
    bench.hold(plan, holder="other")
    for _ in range(3):
        bench.wait(4)
        bench.touch("other")
    bench.wait(1)
    assert bench.settle(held), "its own leases do not end because its worker was away"


def test_after_an_outage_live_holders_have_time_to_say_so(bench: Bench) -> None:
    plan = bench.plan(concurrency=9)
    one, two = bench.hold(plan, holder="one"), bench.hold(plan, holder="two")
    dead = bench.hold(plan, holder="dead")
    for outage in (13, 3600, 10 * 86_400):
        bench.wait(outage)
        bench.touch("one")
        bench.wait(3)
        bench.touch("two")
        assert bench.state().in_flight == 3
    bench.wait(2.1)
    bench.touch("one")
    assert bench.state().in_flight == 2
    assert not bench.settle(dead)
    assert bench.settle(one)
    assert bench.settle(two)
    bench.assert_nothing_open()


def test_nobodys_leases_end_within_half_a_minute(bench: Bench) -> None:
    """As the couriers of the others do it: they know of the tenant from the set of all that have leases."""
    plan = bench.plan(concurrency=9)
    assert bench.known(bench.tenant) == []
    bench.wait(6)
    bench.hold(plan, holder="dead")
    died = bench.now_ms
    empty: list[str] = []
    while bench.hash("leases"):
        bench.wait(3)
        if bench.known(empty=empty) == [bench.tenant]:
            empty = [] if bench.touch("live") else [bench.tenant]
    assert bench.now_ms - died <= 30_000
    for _ in range(10):
        bench.wait(3)
        if bench.known(empty=empty) == [bench.tenant]:
            empty = [] if bench.touch("live") else [bench.tenant]
    assert bench.client.zcard("penstock:{leases}:tenants" + bench.tenant) == 0


def test_a_tenant_made_known_again_is_not_forgotten(bench: Bench) -> None:
    bench.known("a", "b")
    bench.wait(13)
    assert bench.known() == ["a", "b"]
    bench.wait(1)
    bench.known("a")
    bench.wait(1)
    bench.known(empty=["a", "b"])
    bench.wait(13)
    assert bench.known() == ["a"]


def test_a_touch_tells_whether_anything_is_open(bench: Bench) -> None:
    assert bench.touch() is False
    held = bench.hold(bench.plan(rpm=9))
    assert bench.touch() is True
    bench.settle(held)
    assert bench.touch() is False


@pytest.mark.parametrize("back", [0.001, 1, 30, 60])
def test_a_clock_that_goes_back_stands_still(bench: Bench, back: float) -> None:
    plan = bench.plan(rpm=2, tpm=1000, concurrency=5)
    early = bench.hold(plan, 10, 10)
    bench.wait(-back)
    late = bench.hold(plan, 10, 10)
    assert bench.refused(plan).limit == "requests_per_minute"
    assert bench.settle(early, 10, 5)
    assert bench.settle(late, 10, 5)
    assert bench.state() == State(2, 20, 10, 0)
    bench.wait(back + 61)
    assert bench.state() == State(0, 0, 0, 0)


def test_a_clock_that_was_hours_ahead_does_not_shut_a_tenant_out_for_hours(bench: Bench) -> None:
    plan = bench.plan(rpm=2, tpm=1000)
    held = bench.hold(plan, 10, 10)
    bench.settle(bench.hold(plan, 10, 10), 10, 10)
    bench.wait(-7200)
    refused = bench.refused(plan)
    assert (refused.limit, refused.wait_ms) == ("requests_per_minute", 61_000)
    assert bench.settle(held, 10, 4)
    assert bench.state() == State(2, 20, 14, 0)
    bench.wait(61)
    assert bench.state() == State(0, 0, 0, 0)


def test_a_clock_that_jumps_forward_ends_no_live_lease(bench: Bench) -> None:
    plan = bench.plan(rpm=2, tpm=1000, concurrency=5)
    held = bench.hold(plan, 10, 10, holder="live")
    bench.wait(7200)
    bench.hold(plan, 1, 1, holder="other")
    assert bench.state() == State(1, 1, 1, 2)
    assert bench.settle(held, 10, 12)
    assert bench.state() == State(1, 1, 3, 1)


def test_data_lost_meanwhile_leaves_nothing_negative(bench: Bench) -> None:
    plan = bench.plan(rpm=9, tpm=1000, concurrency=9, price=PRICE, budget={"usd": 1})
    before = bench.hold(plan, 10, 10)
    bench.lose()
    assert not bench.settle(before, 10, 5)
    assert bench.state() == State(0, 0, 0, 0)
    bench.assert_nothing_open()
    # Only a part of it: what is left still ends, and nothing goes below nothing.
    for kind in ("window:tenant", "inflight", "holders", "budget:tenant:2026-09"):
        held = bench.hold(plan, 10, 10)
        bench.client.delete(f"{bench.base}:{kind}")
        assert bench.settle(held, 10, 5), kind
        assert min(bench.state()) >= 0
        assert bench.money().reserved == 0
        assert bench.hash("inflight") == {}
        assert set(bench.hash("holders")) <= {b"next"}


def test_the_time_to_live_is_what_the_courier_says(bench: Bench) -> None:
    bench.batch([[RESERVE, "h/1", 1, 1, 1, 1, 1]], [bench.plan(rpm=9)], ttl=777)
    assert bench.hash("holders")[b"e:h"] == b"%d" % (bench.now_ms + 777)
    bench.touch()
    assert bench.hash("holders")[b"e:h"] == b"%d" % (bench.now_ms + TTL_MS)
