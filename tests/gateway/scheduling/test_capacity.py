import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.scheduling.capacity import (
    ALLOWANCE_TOKENS,
    BACKLOG_STEPS,
    Demand,
    Need,
    Reserve,
    could_ever,
    feasible,
    fits,
    has_long_backlog,
    sum_of,
    usable,
    use_of,
    with_promised,
)
from gateway.scheduling.shares import ActiveTenant, shares
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView

MARK = 0.9
EMPTY = ReplicaView(
    "p/0",
    "p",
    Shape(tp=2),
    Role.BOTH,
    Load(kv_blocks_total=1000, workers=1),
    max_batch_size=100,
    kv_block_tokens=32,
    max_num_tokens=8192,
)
SMALL = Need(1, 100, 200, 200)


def view(name: str = "p/0", *, sent: int = 0, prompts: int = 0, kv: int = 0, **load: int) -> ReplicaView:
    return replace(
        EMPTY,
        id=name,
        load=replace(EMPTY.load, **load),
        sent=sent,
        sent_prompt_tokens=prompts,
        sent_kv_tokens=kv,
    )


def need(prompt: int = 100, *, sequences: int = 1, kv: int | None = None) -> Need:
    return Need(sequences, prompt, prompt if kv is None else kv, prompt if kv is None else kv)


COUNTS = st.integers(0, 120)
TOKENS = st.integers(0, 40_000)
VIEWS = st.builds(
    view,
    name=st.sampled_from(["p/0", "p/1", "p/2", "p/3"]),
    sent=st.integers(0, 20),
    prompts=TOKENS,
    kv=TOKENS,
    running=COUNTS,
    waiting=st.integers(0, 12),
    kv_blocks_used=st.integers(0, 1000),
    kv_blocks_reserved=st.integers(0, 1000),
    prefill_tokens=TOKENS,
    workers=st.integers(0, 8),
)
FLEETS = st.lists(VIEWS, max_size=4, unique_by=lambda v: v.id)
NEEDS = st.builds(Need, st.integers(1, 8), st.integers(1, 40_000), TOKENS, TOKENS)


@pytest.mark.parametrize(
    ("replica", "request_", "room"),
    [
        (view(), need(), True),
        (view(running=89), need(), True),
        (view(running=90), need(), False),
        (view(running=80, sent=9), need(), True),
        (view(running=80, sent=10), need(), False),
        (view(running=80), need(sequences=10), True),
        (view(running=80), need(sequences=11), False),
        # An engine whose own queue does not move is left alone; a few that have just arrived are no queue.
        (view(running=50, waiting=4), need(), True),
        (view(running=50, waiting=5), need(), False),
        # KV cache: used, set aside for what runs, and on its way.
        (view(running=1, kv_blocks_used=890), need(kv=320), True),
        (view(running=1, kv_blocks_used=890), need(kv=321), False),
        (view(running=1, kv_blocks_used=400, kv_blocks_reserved=490), need(kv=321), False),
        (view(running=1, sent=1, kv=28_700, kv_blocks_used=1), need(kv=320), False),
        # Prompts: two steps of them, or one of any length behind less than the allowance.
        (view(running=1, prefill_tokens=8192), need(8192), True),
        (view(running=1, prefill_tokens=8192), need(8193), False),
        (view(running=1, prefill_tokens=8000, prompts=192, sent=1), need(8193), False),
        (view(running=1, prefill_tokens=ALLOWANCE_TOKENS), need(28_000), True),
        (view(running=1, prefill_tokens=ALLOWANCE_TOKENS + 1), need(28_000), False),
        # An empty one takes all that it can hold at all.
        (view(), need(32_000), True),
        (view(), need(32_001), False),
        (view(), need(sequences=100), True),
        (view(), need(sequences=101), False),
        (view(sent=1), need(sequences=90), False),
    ],
)
def test_what_a_replica_has_room_for(replica: ReplicaView, request_: Need, room: bool) -> None:
    assert fits(replica, request_, MARK) is room


def test_a_large_engine_queue_may_be_longer_before_it_counts_as_stuck() -> None:
    large = replace(view(running=50, waiting=40), max_batch_size=2048)
    assert fits(large, SMALL, MARK)
    assert not fits(replace(large, load=replace(large.load, waiting=41)), SMALL, MARK)


def test_an_engine_that_reserves_the_whole_answer_must_have_room_for_it() -> None:
    short = Need(1, 100, 200, 30_000)
    busy = view(running=1, kv_blocks_used=100)
    assert fits(busy, short, MARK)
    assert not fits(replace(busy, reserves_output=True), short, MARK)
    assert not could_ever(replace(EMPTY, reserves_output=True), Need(1, 100, 200, 32_001))


def test_what_is_not_known_of_an_engine_bounds_nothing() -> None:
    unknown = replace(view(running=500, prefill_tokens=10**6, kv_blocks_total=0), max_batch_size=0, max_num_tokens=0)
    assert fits(unknown, need(10**6), MARK)
    assert has_long_backlog(unknown)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_that_read_one_report_share_its_room(workers: int) -> None:
    report = view(running=40, workers=workers)
    taken = 0
    for _ in range(workers):
        mine = report
        while fits(mine, need(1), MARK):
            mine = with_promised(mine, need(1))
            taken += 1
    assert taken <= 50
    assert taken >= 50 - workers


def test_one_request_fits_into_a_part_that_is_smaller() -> None:
    assert fits(view(running=87, workers=8), need(), MARK)
    assert not fits(view(running=87, workers=8, sent=1), need(), MARK)


@given(VIEWS, NEEDS)
def test_nothing_is_admitted_above_the_watermark_but_to_an_empty_replica(replica: ReplicaView, request_: Need) -> None:
    if not fits(replica, request_, MARK):
        return
    assert could_ever(replica, request_) or replica.load.running or replica.sent
    load = replica.load
    occupied = load.running + load.waiting + replica.sent
    if occupied:
        after = with_promised(replica, request_)
        assert load.running + load.waiting + after.sent <= MARK * 100
        assert (load.kv_blocks_used + load.kv_blocks_reserved) * 32 + after.sent_kv_tokens <= MARK * 32_000
        backlog = load.prefill_tokens + replica.sent_prompt_tokens
        assert backlog <= ALLOWANCE_TOKENS or backlog + request_.prompt_tokens <= BACKLOG_STEPS * 8192


@given(VIEWS, NEEDS, NEEDS)
def test_less_room_never_lets_more_in(replica: ReplicaView, request_: Need, other: Need) -> None:
    fuller = with_promised(replica, other)
    if replica.load.running + replica.load.waiting + replica.sent and not fits(replica, request_, MARK):
        assert not fits(fuller, request_, MARK)
    assert sum_of(sum_of(request_, other), other, -1) == request_


@given(FLEETS, NEEDS, st.frozensets(st.sampled_from(["p/0", "p/1"])))
def test_feasible_replicas_have_room_and_are_of_the_best_kind(
    fleet: list[ReplicaView], request_: Need, avoid: frozenset[str]
) -> None:
    found = feasible(fleet, Demand(request_), MARK, avoid)
    room = [v for v in fleet if fits(v, request_, MARK)]
    assert bool(found) == bool(room)
    assert all(v in room for v in found)
    for better in room:
        if better not in found:
            assert has_long_backlog(better) or better.id in avoid
    if any(not has_long_backlog(v) and v.id not in avoid for v in room):
        assert all(not has_long_backlog(v) and v.id not in avoid for v in found)


@given(FLEETS, NEEDS)
def test_there_is_always_progress_when_a_replica_is_empty(fleet: list[ReplicaView], request_: Need) -> None:
    for v in fleet:
        if not v.load.running + v.load.waiting + v.sent and could_ever(v, request_):
            assert feasible(fleet, Demand(request_), MARK)


@given(FLEETS, NEEDS, st.frozensets(st.sampled_from(["p/0", "p/1"]), min_size=1), TOKENS)
def test_beyond_its_allowance_a_tenant_stays_in_its_lanes(
    fleet: list[ReplicaView], request_: Need, mine: frozenset[str], outside: int
) -> None:
    found = usable(fleet, Demand(request_), mine, outside)
    able = [v for v in fleet if could_ever(v, request_)]
    assert usable(fleet, Demand(request_), None, outside) == able
    if outside + request_.prompt_tokens <= ALLOWANCE_TOKENS:
        assert found == able
    elif any(v.id in mine for v in able):
        assert found == [v for v in able if v.id in mine]
    else:
        assert found == able


def test_the_use_of_a_fleet_is_that_of_its_slots_or_of_its_cache() -> None:
    assert use_of([]) == 0.0
    assert use_of([view(running=50), view(running=20, sent=10)]) == pytest.approx(0.4)
    assert use_of([view(running=10, kv_blocks_used=300, kv_blocks_reserved=200, kv=3200)]) == pytest.approx(0.6)


def test_a_tenant_below_its_share_leaves_nothing_free() -> None:
    active = [ActiveTenant("g", 0, 4, 0.3), ActiveTenant("b", 1, 1, 0.1)]
    reserve = Reserve(active, shares(active), {"g": 0.8})
    assert reserve.withheld_from("g", 0) == Reserve.SPARE
    assert reserve.withheld_from("b", 1) == 0.0
    assert Reserve(active, shares(active), {"g": 0.7}).withheld_from("g", 0) == 0.0
    assert reserve.withheld_from("unknown", 1) == 0.0


def test_what_other_tiers_have_reserved_and_do_not_use_stays_free() -> None:
    active = [ActiveTenant("g", 0, 4, 0.3), ActiveTenant("b", 1, 1, 0.1), ActiveTenant("b2", 1, 1, 0.1)]
    share = shares(active)
    assert Reserve(active, share, {"b": 0.6}).withheld_from("b", 1) == pytest.approx(0.3)
    assert Reserve(active, share, {"b": 0.6, "g": 0.25}).withheld_from("b", 1) == pytest.approx(Reserve.SPARE)
    assert Reserve(active, share, {"b": 0.2, "g": 0.8, "b2": 0.0}).withheld_from("g", 0) == pytest.approx(Reserve.SPARE)


def test_who_has_no_share_at_all_still_gets_something_through() -> None:
    active = [ActiveTenant("all", 0, 1, 1.0), ActiveTenant("none", 1, 1, 0.0)]
    assert shares(active)["none"] == 0.0
    assert Reserve(active, shares(active), {}).withheld_from("none", 1) == Reserve.MOST


def test_among_tenants_that_all_have_their_shares_nothing_is_kept() -> None:
    active = [ActiveTenant("a", 0, 1, 0.2), ActiveTenant("b", 0, 1, 0.2)]
    assert Reserve(active, shares(active), {"a": 0.5, "b": 0.5}).withheld_from("a", 0) == 0.0
