from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.scheduling.admission import Admission, AdmissionRequest, demand_of
from gateway.scheduling.admission_queue import STALE_SECONDS
from gateway.scheduling.capacity import ALLOWANCE_TOKENS, Demand, Need, feasible, parts_of, servable, usable, use_of
from gateway.scheduling.shares import ActiveTenant
from protos.types import Load, Role, Shape
from routing.contracts.policy import NoCandidate, ReplicaView, RouteRequest
from tests.gateway.scheduling.bench import LIMIT, Bench, settle

PREFILL, DECODE, BOTH = Role.PREFILL, Role.DECODE, Role.BOTH
ROLES = {"p": PREFILL, "d": DECODE, "b": BOTH}


def bench_of(*names: str, kv_blocks: int = 10_000) -> Bench:
    """Replicas by name, whose first letter says their role."""
    bench = Bench(*names, kv_blocks=kv_blocks)
    views = bench.fleet.views
    for name in names:
        views[name] = replace(views[name], role=ROLES[name[0]])
    return bench


def send(bench: Bench, admission: Admission) -> None:
    """As dispatching does for a pair, with both sides' views counting it at once."""
    assert admission.decision is not None
    for view in parts_of(admission.decision):
        admission.opened(view.id, computes=view.role is not DECODE)
        bench.fleet.running(view.id, admission.request.n)


async def test_a_turn_on_a_pair_needs_room_on_both_sides() -> None:
    for full in ("p", "d"):
        bench = bench_of("p", "d")
        turns = []
        for _ in range(LIMIT):
            admission = bench.admission_queue.try_enter(bench.request())
            assert admission is not None
            assert admission.decision is not None
            assert [view.id for view in parts_of(admission.decision)] == ["p", "d"]
            turns.append(admission)
        assert bench.admission_queue.try_enter(bench.request()) is None
        for admission in turns:
            send(bench, admission)
        assert not bench.admission_queue._promised
        # One side that has room again is not enough.
        bench.fleet.running(full, -LIMIT)
        waiting = bench.wait()
        await settle()
        assert not waiting.done()
        other = "d" if full == "p" else "p"
        bench.fleet.running(other, -LIMIT)
        bench.admission_queue.pump()
        for admission in [*turns, await waiting]:
            admission.release(1)
        bench.check_empty()


async def test_the_promise_to_the_decode_side_is_kept_until_it_has_the_request() -> None:
    bench = bench_of("p", "d")
    admission = bench.admission_queue.try_enter(bench.request(n=2))
    assert admission is not None
    assert admission.tenant.prefill == {"p": 10}
    admission.opened("p")
    assert {name: need.sequences for name, need in bench.admission_queue._promised.items()} == {"d": 2}
    admission.started()
    assert admission.tenant.prefill == {}
    admission.opened("d", computes=False)
    assert (bench.admission_queue._promised, admission.tenant.prefill) == ({}, {})
    admission.release(1)
    bench.check_empty()


@pytest.mark.parametrize("after", [0, 1])
async def test_what_goes_elsewhere_keeps_no_promise(after: int) -> None:
    bench = bench_of("p", "d", "b")
    admission = bench.admission_queue.try_enter(bench.request())
    while admission is not None and admission.replica_id != "p":
        admission.release(0)
        admission = bench.admission_queue.try_enter(bench.request())
    assert admission is not None
    if after:
        admission.opened("p")
    admission.opened("b")
    assert bench.admission_queue._promised == {}
    assert admission.tenant.prefill == {"b": 10}
    admission.release(0)
    bench.check_empty()


async def test_half_a_pair_is_no_fleet() -> None:
    for name in ("p", "d"):
        bench = bench_of(name)
        admission = bench.admission_queue.try_enter(bench.request())
        assert admission is not None
        assert admission.decision is None
        admission.release(0)
        bench.check_empty()


async def test_a_large_request_gets_a_pair_kept_for_it() -> None:
    bench = bench_of("p", "d", kv_blocks=1000)
    small = [bench.admission_queue.try_enter(bench.request("b")) for _ in range(2)]
    for admission in small:
        assert admission is not None
        send(bench, admission)
    large = bench.wait("a", prompt=31_900)
    await settle()
    bench.admission_queue.pump()
    bench.now = 2.0
    bench.admission_queue.pump()
    assert bench.admission_queue._hold.replicas == {"p", "d"}
    other = bench.wait("b")
    await settle()
    assert not other.done()
    for admission in small:
        assert admission is not None
        for name in ("p", "d"):
            bench.fleet.running(name, -1)
        admission.release(1)
    (await large).release(0)
    (await other).release(0)
    bench.check_empty()


async def test_lanes_are_of_replicas_that_compute_prompts() -> None:
    bench = bench_of("p0", "p1", "d0", "d1")
    bench.admission_queue.active_elsewhere = [ActiveTenant("chat", 1, 1.0, 0.0)]
    turns = [bench.admission_queue.try_enter(bench.request("flood", prompt=30_000)) for _ in range(2)]
    assert turns[1] is None
    heavy = turns[0]
    assert heavy is not None
    small = [bench.admission_queue.try_enter(bench.request("chat")) for _ in range(4)]
    assert {admission.replica_id for admission in small if admission} == {"p0", "p1"} - {heavy.replica_id}
    for admission in [heavy, *small]:
        assert admission is not None
        admission.release(0)
    bench.check_empty()


async def test_what_is_cached_need_not_be_computed() -> None:
    bench = Bench("p/0", "p/1")
    bench.admission_queue.active_elsewhere = [ActiveTenant("chat", 1, 1.0, 0.0)]
    request = bench.request("flood", prompt=30_000)
    request = replace(request, route=replace(request.route, cached={"p/0": 29_000, "p/1": 29_500}))
    turns = [bench.admission_queue.try_enter(request) for _ in range(2)]
    for admission in turns:
        assert admission is not None
        assert admission.tenant.prefill[admission.replica_id or ""] in (1000, 500)
        assert admission.kv_tokens == 30_010
    assert bench.admission_queue.active_here()[0].heavy is False
    for admission in turns:
        assert admission is not None
        admission.opened("p/1")
        admission.release(0)
    bench.check_empty()


async def test_who_waited_is_decided_by_what_is_cached_then() -> None:
    bench = Bench("p/0")
    bench.admission_queue._cached = lambda route: {"p/0": 7}
    turns = bench.fill()
    waiting = bench.wait()
    await settle()
    bench.now = STALE_SECONDS * 2
    bench.end(turns.pop())
    admission = await waiting
    assert (admission.route.cached, admission.route.now) == ({"p/0": 7}, bench.now)
    assert admission.tenant.prefill == {"p/0": 3 + 10 * (LIMIT - 1)}
    for other in [admission, *turns]:
        other.release(0)
    bench.check_empty()


async def test_a_policy_that_makes_nothing_of_the_replicas_with_room_lets_a_request_wait() -> None:
    class NoPairs:
        uses_prefixes = False

        def pick(self, request: RouteRequest, candidates: Any) -> Any:
            raise NoCandidate("no pairs")

    bench = bench_of("p", "d")
    request = replace(bench.request(), policy=NoPairs())
    assert bench.admission_queue.try_enter(request) is None
    assert bench.admission_queue.waiting == 0


VIEWS = st.builds(
    lambda name, running, used, prefill: ReplicaView(
        name,
        "p",
        Shape(),
        ROLES[name[0]],
        Load(running=running, kv_blocks_used=used, kv_blocks_total=1000, prefill_tokens=prefill, workers=1),
        max_batch_size=10,
        kv_block_tokens=32,
        max_num_tokens=8192,
    ),
    st.sampled_from(["p0", "p1", "d0", "d1", "b0", "b1"]),
    st.integers(0, 10),
    st.integers(0, 1000),
    st.integers(0, 20_000),
)
FLEETS = st.lists(VIEWS, max_size=6, unique_by=lambda view: view.id)
DEMANDS = st.builds(
    lambda n, prompt, output, cached: Demand(
        Need(n, prompt, prompt + output, prompt + output), {"p0": cached % prompt}
    ),
    st.integers(1, 5),
    st.integers(1, 33_000),
    st.integers(1, 1000),
    st.integers(0, 40_000),
)


@given(FLEETS, DEMANDS, st.frozensets(st.sampled_from(["p0", "b0"])), st.integers(0, 3000))
def test_what_is_left_of_a_fleet_can_always_serve(
    fleet: list[ReplicaView], demand: Demand, lanes: frozenset[str], outside: int
) -> None:
    for found in (
        servable(fleet),
        feasible(fleet, demand, 0.9, lanes),
        usable(fleet, demand, None, outside),
        usable(fleet, demand, lanes, outside),
    ):
        roles = {view.role for view in found}
        assert (PREFILL in roles) == (DECODE in roles)
        assert all(view in fleet for view in found)
    for view in usable(fleet, demand, lanes, outside):
        inside = view.id in lanes or view.role is DECODE
        small = outside + demand.prompt_tokens_at(view.id) <= ALLOWANCE_TOKENS
        assert inside or small or not any(other.id in lanes for other in usable(fleet, demand, lanes, outside))


@given(FLEETS, DEMANDS)
def test_each_side_of_a_pair_needs_its_part(fleet: list[ReplicaView], demand: Demand) -> None:
    for view in fleet:
        need = demand.at(view)
        assert need.sequences == demand.whole.sequences
        if view.role is DECODE:
            assert (need.prompt_tokens, need.kv_tokens) == (0, demand.whole.kv_tokens)
        else:
            assert need.prompt_tokens == demand.prompt_tokens_at(view.id) >= demand.least_prompt_tokens >= 1
        if view.role is PREFILL:
            assert need.kv_tokens <= demand.whole.prompt_tokens + need.sequences
    assert use_of([view for view in fleet if view.role is not PREFILL]) == use_of(fleet)


def test_a_demand_is_the_requests() -> None:
    route = RouteRequest("r", 100, 50, 2, cached={"b0": 64})
    request = AdmissionRequest("r", "t", 0, 1.0, 0.0, route, 30, 2, 1.0, 1)
    assert demand_of(request, route) == Demand(Need(2, 100, 130, 200), {"b0": 64})
