import copy
from typing import Any

from gateway.scheduling.hold import HOLD_SECONDS
from gateway.scheduling.objections import OTHERS_LANE
from gateway.scheduling.shares import ActiveTenant
from tests.gateway.scheduling.bench import LIMIT, Bench, settle


def state(bench: Bench) -> Any:
    divider = bench.admission_queue.divider
    tenants = {
        name: [copy.copy(getattr(tenant, slot)) for slot in tenant.__slots__]
        for name, tenant in divider._tenants.items()
    }
    return tenants, divider._division, divider.use, divider._admissions, dict(bench.admission_queue._promised)


def considered(bench: Bench, tenant: str = "a", **fields: Any) -> str | None:
    """Where a request would go; asking must change nothing."""
    request, before = bench.request(tenant, **fields), state(bench)
    decision = bench.admission_queue.consider(request)
    bench.admission_queue.objections(request)
    assert state(bench) == before
    return None if decision is None else decision.replica.id


async def test_it_says_what_entering_does_and_takes_nothing() -> None:
    bench = Bench("p/0", "p/1")
    turns = []
    for number in range(2 * LIMIT):
        expected = considered(bench)
        assert expected is not None
        admission = bench.enter()
        assert admission is not None
        # Of equal ones the policy takes turns, and being asked is a turn.
        if number % 2:
            assert admission.replica_id == expected
        turns.append(admission)
    assert considered(bench) is None
    assert bench.admission_queue.objections(bench.request()) == {"p/0": "no free slots", "p/1": "no free slots"}
    for admission in turns:
        admission.release(1)
    bench.check_empty()


async def test_a_tenant_that_only_asks_is_not_active() -> None:
    bench = Bench("p/0", "p/1")
    admission = bench.enter("a")
    assert admission is not None
    for _ in range(3):
        considered(bench, "b", prompt=5000)
    assert [tenant.name for tenant in bench.admission_queue.active_here()] == ["a"]
    assert not bench.admission_queue.divider._tenants["a"].heavy_until
    admission.release(1)
    bench.check_empty()


async def test_promises_and_lanes_of_others_count() -> None:
    bench = Bench("p/0", "p/1")
    turns = [bench.admission_queue.try_enter(bench.request()) for _ in range(2 * LIMIT)]
    assert considered(bench) is None, "what has leave to run counts before it is sent"
    for admission in turns:
        assert admission is not None
        admission.release(0)
    bench.now = 1.0  # a division is good for a while
    bench.admission_queue.active_elsewhere = [ActiveTenant("h", 1, 1.0, 0.0, True)]
    assert sorted(bench.admission_queue.objections(bench.request()).values()) == ["", OTHERS_LANE]


async def test_what_is_kept_for_who_waits_is_no_place_to_go() -> None:
    bench = Bench("p/0", "p/1")
    turns = bench.fill()
    waiting = bench.wait("big", n=LIMIT)
    await settle()
    bench.admission_queue.pump()
    bench.now = HOLD_SECONDS
    bench.admission_queue.pump()
    kept = next(iter(bench.admission_queue._hold.replicas))
    one = next(admission for admission in turns if admission.replica_id == kept)
    turns.remove(one)
    bench.end(one)
    assert considered(bench, "b") is None
    assert bench.admission_queue.objections(bench.request("b"))[kept] == "kept for a request that waited long"
    for admission in list(turns):
        bench.end(admission)
    (await waiting).release(1)
    bench.check_empty()


async def test_without_any_replica() -> None:
    bench = Bench()
    assert considered(bench) is None
    assert bench.admission_queue.objections(bench.request()) == {}
