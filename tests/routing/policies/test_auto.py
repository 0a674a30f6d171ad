"""The default policy: what it weighs, when it lets a request wait, and what a pick costs nothing of."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Load, Role, Shape, Work
from replicas.profiles import PROFILES
from replicas.timing import Batch, RooflineTimer
from routing.contracts.policy import BetterWait, Decision, ReplicaView, Routed, RouteRequest, Stepped
from routing.contracts.policy_settings import PolicySettings, Targets
from routing.policies.auto import MOST_CANDIDATES, NONE_KEEPS_PACE, PARTS, Auto

MIXTRAL = PROFILES["mixtral-8x7b"]


def view(
    name: str,
    *,
    tp: int = 2,
    role: Role = Role.BOTH,
    running: int = 0,
    prefill: int = 0,
    used: int = 0,
    sent: int = 0,
    steps: int = 0,
    workers: int = 1,
) -> ReplicaView:
    load = Load(
        running=running,
        kv_blocks_used=used,
        kv_blocks_total=50_000,
        tokens_in_flight=running * 1000,
        prefill_tokens=prefill,
        workers=workers,
        steps=steps,
    )
    return ReplicaView(
        name, f"{role.value}{tp}", Shape(tp=tp), role, load, sent, sent * 500, sent * 700, 256, 32, 8192, True
    )


def ask(
    prompt: int = 2000, *, output: float = 200.0, wait: bool = False, now: float = 0.0, **known: object
) -> RouteRequest:
    return RouteRequest("r", prompt, 500, expected_output=output, now=now, may_wait=wait, **known)  # type: ignore[arg-type]


def taught(*views: ReplicaView, steps: int = 200) -> Auto:
    """Has seen steps of each one's class, as the roofline has them."""
    policy = Auto(PolicySettings())
    for one in views:
        timer = RooflineTimer(MIXTRAL, one.shape)
        for number in range(steps):
            batch = Batch(decode=1 + number % 40, decode_context=1000 * (1 + number % 40), outputs=1 + number % 40)
            if number % 4 == 0:
                batch.prefill, batch.prefill_pairs = 512 << number % 5, (512 << number % 5) ** 2 // 2
            micros = round(timer.step_seconds(batch) * 1e6)
            work = Work(micros, batch.prefill, batch.prefill_pairs, batch.decode, batch.decode_context)
            policy.observe(Stepped(one, work))
    return policy


def test_an_idle_fleet_gives_a_long_prompt_to_the_fastest_shape() -> None:
    wide, narrow = view("wide", tp=8), view("narrow", tp=2)
    decision = taught(wide, narrow).pick(ask(8000), [narrow, wide])
    assert decision.replica is wide
    assert decision.expected_ttft == pytest.approx(
        RooflineTimer(MIXTRAL, wide.shape).step_seconds(_prompt(8000)), rel=0.3
    )


def _prompt(tokens: int) -> Batch:
    return Batch(prefill=tokens, prefill_pairs=tokens * tokens // 2, outputs=1)


def test_a_backlog_sends_it_elsewhere() -> None:
    wide, narrow = view("wide", tp=8, running=1, prefill=60_000), view("narrow", tp=2)
    assert taught(wide, narrow).pick(ask(2000), [wide, narrow]).replica is narrow


def test_what_was_sent_counts_like_what_is_reported() -> None:
    views = [view("a"), view("b", sent=3)]
    assert taught(*views).pick(ask(), views).replica.id == "a"


def test_a_cached_prefix_is_worth_a_wait_and_the_more_the_busier_the_fleet() -> None:
    holder, other = view("holder", running=4, prefill=1500), view("other", running=4)
    policy = taught(holder, other)
    request = ask(4000, cached={"holder": 2200}, now=100.0)
    assert policy.pick(request, [holder, other]).replica is holder
    little = ask(4000, cached={"holder": 1000}, now=100.0)
    assert policy.pick(little, [holder, other]).replica is other
    for number in range(1000):  # a hundred a second: computing what is cached somewhere delays others
        routed = ask(4000, now=90.0 + number / 100)
        policy.observe(Routed(routed, Decision(other)))
    assert policy.pick(little, [holder, other]).replica is holder


def test_a_class_that_nobody_knows_starts_from_the_nearest_one() -> None:
    known, new = view("known", tp=4), view("new", tp=8)
    policy = taught(known)
    first, second = policy.explain(ask(6000), [known, new])
    assert first.replica == "new"
    assert first.parts["compute"] == pytest.approx(second.parts["compute"] / 2, rel=0.3)


def test_a_request_waits_while_every_replica_would_fall_behind() -> None:
    busy = [view(name, running=20, prefill=6000, steps=100) for name in ("a", "b")]
    policy = taught(*busy)
    with pytest.raises(BetterWait):
        policy.pick(ask(4000, output=20, wait=True), busy)
    assert policy.pick(ask(4000, output=20), busy).reason == NONE_KEEPS_PACE
    assert policy.pick(ask(4000, output=20, wait=True), [*busy, view("free")]).replica.id == "free"
    # A long answer can make good a standstill that a short one cannot.
    assert policy.pick(ask(4000, output=400, wait=True), busy)


def test_a_worker_takes_only_its_part_of_the_room_that_all_see() -> None:
    alone, shared = view("a", running=20, sent=2, steps=100), view("a", running=20, sent=2, workers=8, steps=100)
    policy = taught(alone)
    assert policy.pick(ask(600, output=20, wait=True), [alone]).replica is alone
    with pytest.raises(BetterWait):
        policy.pick(ask(600, output=20, wait=True), [shared])


def test_it_does_not_wait_for_a_better_place_for_ever() -> None:
    holder, other = view("holder", running=20, prefill=7000, steps=100), view("other", running=20, steps=100)
    policy = taught(holder, other)
    for number in range(300):
        policy.observe(Routed(ask(4000, now=90.0 + number / 30), Decision(other)))
    request = ask(8000, output=20, cached={"holder": 7990}, arrived=100.0, wait=True, now=100.1)
    with pytest.raises(BetterWait):
        policy.pick(request, [holder, other])
    late = ask(8000, output=20, cached={"holder": 7990}, arrived=100.0, wait=True, now=103.0)
    assert policy.pick(late, [holder, other]).replica is other
    hurried = ask(8000, output=20, cached={"holder": 7990}, arrived=100.0, deadline=100.15, wait=True, now=100.1)
    assert policy.pick(hurried, [holder, other]).replica is other
    lower = ask(8000, output=20, cached={"holder": 7990}, arrived=100.0, wait=True, now=101.7, rank=3)
    with pytest.raises(BetterWait):
        policy.pick(lower, [holder, other])
    assert policy.pick(
        ask(8000, output=20, cached={"holder": 7990}, arrived=100.0, wait=True, now=101.7), [holder, other]
    )


def test_what_the_engine_could_not_start_waits() -> None:
    full, free = view("full", tp=8, running=10, used=49_990), view("free", tp=2, running=30, steps=9)
    policy = taught(full, free)
    assert policy.explain(ask(1000), [full, free])[-1].replica == "full"
    assert policy.pick(ask(1000, wait=True, now=2.0), [full, free]).replica is free


def test_a_pair_is_taken_when_it_is_cheaper_as_a_whole() -> None:
    both = view("both", tp=4, running=60, prefill=20_000, steps=50)
    prefill, decode = view("p", tp=4, role=Role.PREFILL), view("d", tp=4, role=Role.DECODE, running=30)
    policy = taught(both, prefill, decode)
    decision = policy.pick(ask(6000), [both, prefill, decode])
    assert (decision.prefill, decision.replica) == (prefill, decode)
    assert decision.entry is prefill
    idle = view("both", tp=4)
    behind = view("p", tp=4, role=Role.PREFILL, prefill=60_000)
    assert policy.pick(ask(6000), [idle, behind, decode]).prefill is None


def test_a_decode_side_without_room_is_no_pair_to_wait_for_nobody() -> None:
    prefill = view("p", role=Role.PREFILL)
    full = view("d", role=Role.DECODE, running=10, used=49_990)
    policy = taught(prefill, full)
    with pytest.raises(BetterWait):
        policy.pick(ask(1000, wait=True), [prefill, full])
    assert policy.pick(ask(1000), [prefill, full]).replica is full


@given(
    running=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    prefill=st.lists(st.integers(0, 30_000), min_size=6, max_size=6),
    prompt=st.integers(1, 50_000),
)
def test_the_explanation_is_what_the_pick_does(running: list[int], prefill: list[int], prompt: int) -> None:
    views = [
        view(f"r{number}", tp=2 << number % 3, running=count, prefill=prefill[number], steps=10)
        for number, count in enumerate(running)
    ]
    policy = taught(*views, steps=8)
    decision, scores = policy.pick(ask(prompt), views), policy.explain(ask(prompt), views)
    assert set(scores[0].parts) == set(PARTS)
    assert scores[0].value == pytest.approx(sum(scores[0].parts.values()))
    chosen = next(score for score in scores if score.replica == decision.replica.id)
    assert chosen.value == pytest.approx(min(score.value for score in scores if not score.excluded))


def test_in_a_large_fleet_each_pick_looks_at_a_part_and_at_the_holders() -> None:
    views = [view(f"r{number:03}", running=1, steps=5) for number in range(4 * MOST_CANDIDATES)]
    policy = taught(views[0])
    holder = views[-1]
    assert policy.pick(ask(4000, cached={holder.id: 3990}), views).replica is holder
    seen = {id_of(policy, views) for _ in range(8)}
    assert len(seen) > 3


def id_of(policy: Auto, views: Sequence[ReplicaView]) -> str:
    return policy.pick(ask(), views).replica.id


def test_tighter_targets_hold_prompts_back_earlier() -> None:
    busy = view("a", running=20, prefill=1000, steps=10)
    lenient, strict = (Auto(PolicySettings(targets=Targets(tpot_ms=tpot))) for tpot in (50, 15))
    for _ in range(50):
        for policy in (lenient, strict):
            policy.observe(Stepped(busy, Work(13_000, sequences=20, context=20_000)))
    assert lenient.pick(ask(500, wait=True), [busy]).replica is busy
    with pytest.raises(BetterWait):
        strict.pick(ask(500, wait=True), [busy])


def test_answers_fall_behind_a_little_for_a_request_that_is_late() -> None:
    busy = view("a", running=20, prefill=4000, steps=100)
    policy = taught(busy)
    with pytest.raises(BetterWait):
        policy.pick(ask(1000, output=20, wait=True, now=1.0), [busy])
    assert policy.pick(ask(1000, output=20, wait=True, now=3.0), [busy]).replica is busy
    full = view("a", running=20, prefill=40_000, steps=100)
    with pytest.raises(BetterWait):
        policy.pick(ask(1000, output=20, wait=True, now=60.0), [full])


LOADS = st.builds(
    Load,
    running=st.integers(0, 80),
    waiting=st.integers(0, 6),
    kv_blocks_used=st.integers(0, 50_000),
    kv_blocks_total=st.sampled_from([0, 50_000]),
    tokens_in_flight=st.integers(0, 1_000_000),
    prefill_tokens=st.sampled_from([0, 100, 20_000]),
    workers=st.integers(0, 3),
    prefill_pairs=st.integers(0, 10**8),
)
VIEWS = st.builds(
    ReplicaView,
    id=st.just("a"),
    pool=st.just("p"),
    shape=st.just(Shape(tp=2)),
    role=st.just(Role.BOTH),
    load=LOADS,
    sent=st.integers(0, 3),
    sent_prompt_tokens=st.sampled_from([0, 500]),
    max_num_tokens=st.sampled_from([0, 8192]),
    kv_block_tokens=st.just(32),
)


def outcome(policy: Auto, request: RouteRequest, views: Sequence[ReplicaView]) -> Decision | type[BetterWait]:
    try:
        return policy.pick(request, views)
    except BetterWait:
        return BetterWait


@given(
    VIEWS,
    st.sampled_from([1, 30, 4000, 100_000]),
    st.sampled_from([0, 29]),
    st.sampled_from([0.0, 0.9, 2.0, 100.0]),
    st.booleans(),
)
def test_an_only_replica_is_decided_on_as_beside_one_that_can_take_nothing(
    one: ReplicaView, prompt: int, held: int, late: float, may_wait: bool
) -> None:
    full = Load(running=200, waiting=100, prefill_tokens=10**9, tokens_in_flight=10**7)
    hopeless = ReplicaView("z", "p", one.shape, Role.BOTH, full, max_num_tokens=8192)
    request = ask(prompt, output=20.0, wait=may_wait, now=late, cached={"a": held} if held < prompt else {})
    alone, beside = Auto(PolicySettings()), Auto(PolicySettings())
    assert outcome(alone, request, [one]) == outcome(beside, request, [one, hopeless])


@given(st.lists(st.tuples(st.integers(0, 3), LOADS, st.integers(1, 60_000)), min_size=1, max_size=40))
def test_what_is_kept_of_a_view_is_what_a_new_look_at_it_gives(changes: list[tuple[int, Load, int]]) -> None:
    policy, views = Auto(PolicySettings()), [view(str(number)) for number in range(4)]
    for number, load, micros in changes:
        views[number] = msgspec.structs.replace(views[number], load=load)
        policy.observe(Stepped(views[number], Work(micros, prefill_tokens=number, sequences=1 + number)))
        outcome(policy, ask(output=20.0), views)
        scores = policy.explain(ask(output=20.0), views)
        policy._standings.clear()
        assert policy.explain(ask(output=20.0), views) == scores
