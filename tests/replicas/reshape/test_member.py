"""A host group's changes, whatever happens meanwhile: a legal shape at the end, no sequence lost or doubled."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.join import Join, JoinKind
from protos.reshape import MemberState, Participant, ReshapeOrder, ReshapePhase, Span
from replicas.reshape.member import Member, Place
from tests.replicas.reshape.played_group import PlayedGroup

PREPARE, TRANSFORM, ABORT = ReshapePhase.PREPARE, ReshapePhase.TRANSFORM, ReshapePhase.ABORT


def shape(group: PlayedGroup) -> list[Span]:
    return sorted(p.member.span for p in group.processes if not p.member.served_by)


def changed(group: PlayedGroup, choice: int) -> None:
    group.begin(choice)
    run(group)
    group.say(TRANSFORM)
    run(group)


def run(group: PlayedGroup) -> None:
    while events := group.events():
        events[0]()


#: What happens, and how much there is to choose in it. What helps is more frequent than what hinders.
HAPPENINGS = st.one_of(
    st.tuples(st.just("event"), st.integers(0, 30)),
    st.tuples(st.just("event"), st.integers(0, 30)),
    st.tuples(st.just("event"), st.integers(0, 30)),
    st.tuples(st.just("run"), st.just(0)),
    st.tuples(st.just("begin"), st.integers(0, 8)),
    st.tuples(st.just("transform"), st.just(0)),
    st.tuples(st.just("abort"), st.just(0)),
    st.tuples(st.just("submit"), st.integers(0, 3)),
    st.tuples(st.just("resubmit"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.just(0)),
    st.tuples(st.just("beat"), st.just(0)),
    st.tuples(st.just("kill"), st.integers(0, 3)),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("forget"), st.just(0)),
)


def happens(group: PlayedGroup, what: str, choice: int, sequences: set[str]) -> None:
    if what == "event":
        events = group.events()
        if events:
            events[choice % len(events)]()
    elif what == "run":
        run(group)
    elif what == "transform":
        group.say(TRANSFORM)
    elif what == "abort":
        group.say(ABORT)
    elif what == "submit":
        sequences.add(f"s{len(sequences)}")
        group.submit(f"s{len(sequences) - 1}", choice)
    elif what in ("begin", "resubmit", "kill", "cut"):
        getattr(group, what)(choice)
    else:
        getattr(group, what)()


@settings(max_examples=200)
@given(st.lists(HAPPENINGS, min_size=30, max_size=150), st.sampled_from((4, 8)))
def test_whatever_happens_the_shape_is_legal_and_each_sequence_is_somewhere_once(
    story: list[tuple[str, int]], gpus: int
) -> None:
    group, sequences = PlayedGroup(gpus, transform_ms=4000), {"a", "b", "c", "d"}
    for gpu, sequence in enumerate(sorted(sequences)):
        group.submit(sequence, gpu)
    for what, choice in story:
        happens(group, what, choice, sequences)
        group.check(sequences)
    group.settle()
    group.check(sequences)
    group.check_settled()


@pytest.mark.parametrize("choice", range(3))
def test_without_losses_every_change_is_done(choice: int) -> None:
    group = PlayedGroup()
    seen = set()
    for _ in range(12):
        before = shape(group)
        changed(group, choice)
        assert shape(group) != before
        assert all(p.member.failure == "" for p in group.processes)
        assert all(p.member.state in (MemberState.SERVING, MemberState.PARKED) for p in group.processes)
        group.check_settled()
        seen.add(tuple(shape(group)))
    assert len(seen) > 1


def test_a_parked_replica_follows_the_one_that_serves_its_gpu() -> None:
    # It was told of the wide replica's split in time to hear that it is done, and had given the change up before.
    group = PlayedGroup()
    changed(group, 2)
    assert shape(group) == [Span(0, 4)]
    group.processes[1].member.span = Span(0, 2)
    group.beat()
    run(group)
    assert group.processes[1].member.span == Span(0, 4)
    group.check_settled()


def test_one_that_hears_its_server_serve_other_gpus_serves_its_own() -> None:
    group = PlayedGroup()
    changed(group, 2)
    group.processes[0].member.span = Span(0, 2)
    group.beat()
    run(group)
    assert shape(group) == list(Span(0, 4).halves(1))
    assert "says to serve GPUs 0 to 1 only" in group.processes[3].member.failure
    group.check_settled()


def prepared(played: PlayedGroup, **changed_: object) -> list[str]:
    """What all say of an order to make one replica of four, but for what is changed in it."""
    played.change += 1
    participants = tuple(Participant(f"gpu{p.gpu}", p.gpu, p.epoch) for p in played.processes)
    order = ReshapeOrder(played.change, PREPARE, "g", Span(0, 4).halves(1), (Span(0, 4),), participants, 1000)
    order = msgspec.structs.replace(order, **changed_)
    for process in played.processes:
        process.orders.append(order)
    run(played)
    return [process.member.failure for process in played.processes]


NOBODY = Participant("gpu0", 0, 77)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"before": (Span(0, 1), Span(0, 1), Span(1, 1))}, "GPU 0 belongs to two replicas"),
        ({"before": (Span(0, 1), Span(1, 1), Span(3, 1))}, "GPU 2 belongs to no replica"),
        ({"before": (Span(0, 1), Span(1, 2), Span(3, 1))}, "TP2 cannot begin at GPU 1"),
        ({"before": (Span(0, 1), Span(1, 3))}, "TP3 is no power of two"),
        ({"before": (Span(0, 4),)}, "several of one"),
        ({"before": Span(0, 2).halves(1), "after": Span(0, 2).halves(1)}, "several of one"),
        ({"after": (Span(0, 8),), "before": Span(0, 8).halves(1)}, "GPUs 0 to 7 is no part of a group of 4"),
        ({"after": (Span(0, 3),)}, "a group has a power of two"),
        ({"before": Span(0, 4).halves(2)}, "not GPUs 0 to 1"),
        ({"before": (Span(0, 4),), "after": Span(0, 4).halves(1)}, "not GPUs 0 to 3"),
        ({"participants": (NOBODY,)}, "no participant has GPU 1"),
        ({"participants": (NOBODY, NOBODY)}, "two participants have the same GPU"),
        ({"participants": (NOBODY, Participant("gpu9", 9, 9))}, "GPU 9 of a participant is not in GPUs 0 to 3"),
        ({"participants": tuple(Participant("x", gpu, 77) for gpu in range(4))}, "the order is for epoch 77"),
    ],
)
def test_an_order_that_cannot_be_is_refused_by_name(wrong: dict[str, object], said: str) -> None:
    group = PlayedGroup()
    failures = prepared(group, **wrong)
    assert any(said in failure for failure in failures), failures
    group.settle()
    group.check_settled()
    assert shape(group) == list(Span(0, 4).halves(1))


def test_an_order_for_another_group_is_refused_to_its_sender_only() -> None:
    group = PlayedGroup()
    assert set(prepared(group, group="other")) == {""}
    assert group.refused == ["this is a replica of group g, not of other"] * 4


def test_old_orders_and_those_meanwhile_are_refused_to_their_sender_only() -> None:
    group = PlayedGroup()
    assert set(prepared(group)) == {""}
    prepared(group)
    assert set(group.refused) == {"change 1 is under way"}
    group.wait()
    run(group)
    assert {p.member.failure for p in group.processes} & {"no order came for 1000 ms after it was prepared"}
    group.settle()
    group.refused.clear()
    prepared(group, change=1)
    assert set(group.refused) == {"change 1 is not newer than 1"}
    group.say(TRANSFORM)
    assert not group.events()


def test_what_was_not_prepared_is_not_begun() -> None:
    group = PlayedGroup()
    group.begin(0)
    group.processes[0].orders.clear()
    group.say(TRANSFORM)
    run(group)
    assert "change 1 is not prepared here" in group.refused
    group.settle()
    group.check_settled()
    assert shape(group) == list(Span(0, 4).halves(1))


def test_one_that_drains_takes_no_order_and_undoes_what_is_under_way() -> None:
    group = PlayedGroup()
    group.begin(2)
    run(group)
    group.do(group.processes[2], group.processes[2].member.drain())
    assert group.processes[2].member.failure == "the replica is draining"
    group.settle()
    assert "the replica is draining" in prepared(group)
    group.settle()
    group.check_settled()


def test_an_engine_that_cannot_refuses_and_one_that_fails_undoes() -> None:
    group = PlayedGroup()
    process = group.processes[1]
    process.member = Member(Place("g", 4, Span(1, 1), process.epoch), lambda widths: f"no TP{widths[0]}")
    assert "no TP4" in prepared(group)
    group.settle()
    group = PlayedGroup()
    group.begin(2)
    run(group)
    group.say(TRANSFORM)
    for one in group.processes:
        group.obey(one)
    group.do(group.processes[3], group.processes[3].member.unable("it is broken"))
    run(group)
    group.settle()
    group.check_settled()
    assert shape(group) == list(Span(0, 4).halves(1))
    assert {one.member.failure for one in group.processes} == {"it is broken"}


def test_a_taker_that_says_done_and_is_not_loses_what_it_was_given() -> None:
    group = PlayedGroup()
    group.begin(2)
    run(group)
    group.say(TRANSFORM)
    for one in group.processes:
        group.obey(one)
    giver = group.processes[1]
    group.rest(giver)
    link = next(iter(giver.links))
    group.do(giver, giver.member.heard(link, Join(JoinKind.DONE, 1, Span(0, 2))))
    assert giver.member.failure == "change 1 is said to be done, and is not"
    assert giver.member.state is MemberState.SERVING
    group.settle()
    group.check_settled()
    assert shape(group) == list(Span(0, 4).halves(1))


def test_a_taker_that_never_answers_is_left_in_time() -> None:
    group = PlayedGroup()
    group.begin(2)
    run(group)
    group.say(TRANSFORM)
    for one in group.processes[1:]:
        group.obey(one)
    for one in group.processes[1:]:
        group.rest(one)
    group.forget()
    for _ in range(6):
        group.wait()
    assert {one.member.state for one in group.processes} == {MemberState.SERVING}
    assert "was not done within 1000 ms" in group.processes[1].member.failure
    group.settle()
    group.check_settled()


def test_a_change_may_take_longer_than_replicas_wait_for_its_beginning() -> None:
    group = PlayedGroup()
    group.begin(2)
    run(group)
    for process in group.processes:
        assert group.order is not None
        group.do(
            process, process.member.order(msgspec.structs.replace(group.order, phase=TRANSFORM, timeout_ms=9000), 0)
        )
    # Said once more, it changes nothing.
    group.say(PREPARE)
    for process in group.processes:
        group.obey(process)
    assert group.refused == []
    taker = group.processes[0]
    assert taker.member.due == 1.0
    for link in list(taker.inboxes):
        group.deliver(taker, link)
    assert {process.member.due for process in group.processes} == {9.0, 18.0}
    group.do(taker, taker.member.tick(9.0))
    assert taker.member.failure == "change 1 was not done within 9000 ms"
    group.settle()
    group.check_settled()


def test_a_taker_waits_no_longer_for_others_to_begin_than_they_wait_for_the_order() -> None:
    group = PlayedGroup()
    group.begin(2)
    run(group)
    assert group.order is not None
    for process in group.processes[:3]:
        order = msgspec.structs.replace(group.order, phase=TRANSFORM, timeout_ms=9000)
        group.do(process, process.member.order(order, 0.0))
    run(group)
    group.do(group.processes[0], group.processes[0].member.tick(1.0))
    assert group.processes[0].member.failure == "the replica of GPU 3 has not begun in time"
    group.settle()
    group.check_settled()
    assert shape(group) == list(Span(0, 4).halves(1))


def held_until_decided(group: PlayedGroup) -> None:
    """Have one of GPUs 0 to 3 deal what it has to those of GPUs 0 and 2, whose messages nobody has got yet."""
    changed(group, 2)
    assert shape(group) == [Span(0, 4)]
    split(group, Span(0, 4).halves(2))


def split(group: PlayedGroup, after: tuple[Span, ...]) -> None:
    """Split what serves from GPU 0 on up to where that has decided, and no farther."""
    before = group.processes[0].member.span
    group.change += 1
    there = [p for p in group.processes if before.start <= p.gpu < before.end]
    participants = tuple(Participant(f"gpu{p.gpu}", p.gpu, p.epoch) for p in there)
    group.order = ReshapeOrder(group.change, PREPARE, "g", (before,), after, participants, 1000)
    group.say(PREPARE)
    for process in there:
        group.obey(process)
    group.say(TRANSFORM)
    while group.processes[0].member.span == before:
        group.events()[0]()


def test_a_parked_replica_hears_its_old_server_go_before_the_new_one_serves() -> None:
    group = PlayedGroup()
    held_until_decided(group)
    rider = group.processes[3]
    (old,) = [link for link, (peer, _) in rider.links.items() if peer is group.processes[0]]
    group.beat()
    while rider.inboxes.get(old):
        group.deliver(rider, old)
    assert rider.member.failure == ""
    run(group)
    assert shape(group) == list(Span(0, 4).halves(2))
    assert all(one.member.failure == "" for one in group.processes)
    group.check_settled()


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from((*5 * ["event"], "beat")), st.integers(0, 30)), min_size=20, max_size=80))
def test_signs_of_life_end_no_change(story: list[tuple[str, int]]) -> None:
    group = PlayedGroup()
    changed(group, 2)
    group.begin(1)
    run(group)
    group.say(TRANSFORM)
    for what, choice in story:
        happens(group, what, choice, set())
    run(group)
    assert all(p.member.failure == "" for p in group.processes)
    assert shape(group) == list(Span(0, 4).halves(2))
    group.check_settled()


def test_what_was_dealt_out_has_gone_before_the_next_change_though_a_link_is_slow_to_end() -> None:
    group, sequences = PlayedGroup(), {"a", "b", "c", "d"}
    changed(group, 2)
    for sequence in sorted(sequences):
        group.submit(sequence, 0)
    split(group, Span(0, 4).halves(2))
    dealer, heir = group.processes[0], group.processes[2]
    # All has come to its end but for what the dealer hears of the other one's link.
    (link,) = [number for number, (peer, _) in dealer.links.items() if peer is heir]
    while others := [
        (process, number)
        for process in group.processes
        for number, inbox in process.inboxes.items()
        if inbox and (process, number) != (dealer, link)
    ]:
        group.deliver(*others[0])
    assert shape(group) == list(Span(0, 4).halves(2))
    slow = dealer.inboxes.pop(link)
    split(group, Span(0, 2).halves(1))
    run(group)
    dealer.inboxes[link] = slow
    group.settle()
    group.check(sequences)
    group.check_settled()
    assert not any(process.gone for process in group.processes)
