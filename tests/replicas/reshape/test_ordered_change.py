from collections.abc import Iterator, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reshape import MemberState, ReshapePhase, Span
from replicas.reshape.group_view import Member, groups_of
from replicas.reshape.ordered_change import ENDED, OrderedChange, advance, begun, order_of, to_tell
from tests.ordered_group import OrderedGroup

NARROW = tuple(Span(0, 4).halves(1))
WIDE = (Span(0, 4),)
REPLICAS = st.sampled_from(["r0", "r1", "r2", "r3"])
TRAPS = ("", "silent", "refuses", "lies", "fails", "stuck", "dies", "stays_prepared")


def ordered(group: OrderedGroup, before: tuple[Span, ...] = NARROW, after: tuple[Span, ...] = WIDE) -> OrderedChange:
    change = begun(1, "g", before, after, list(group.members.values()), 0.0)
    return change.to("preparing", 0.0)


def followed(
    group: OrderedGroup, change: OrderedChange, lost: Mapping[int, set[str]] | None = None, rounds: int = 60
) -> Iterator[OrderedChange]:
    """Follow a change, a round a second; `lost` are the replicas that cannot be reached in a round."""
    for now in range(rounds):
        seen = {address: one for address, one in group.seen().items() if address not in (lost or {}).get(now, set())}
        change = advance(change, seen, float(now), 10.0)
        yield change
        if change.phase in ENDED:
            return
        order = order_of(change, 10.0)
        assert order is not None
        for address in to_tell(change, seen):
            group.hear(address, order, float(now))
        group.tick(float(now))


def outcome(group: OrderedGroup, change: OrderedChange) -> OrderedChange:
    *_, last = followed(group, change)
    return last


def test_a_change_goes_through_its_phases() -> None:
    group = OrderedGroup()
    phases = [change.phase for change in followed(group, ordered(group))]
    assert phases == ["preparing", "transforming", "done"]
    (view,) = groups_of(group.members.values()).values()
    assert (view.spans, view.problem) == (WIDE, "")
    assert [order.phase for address, order in group.orders if address == "r0"] == [
        ReshapePhase.PREPARE,
        ReshapePhase.TRANSFORM,
    ]


def test_a_wide_replica_is_split_again() -> None:
    group = OrderedGroup(spans=list(WIDE))
    assert outcome(group, ordered(group, WIDE, NARROW)).phase == "done"
    (view,) = groups_of(group.members.values()).values()
    assert (view.spans, view.problem) == (NARROW, "")


@pytest.mark.parametrize(
    ("trap", "why"),
    [
        ("silent", "r2 did not answer within 5 s"),
        ("refuses", "r2: its memory does not hold it"),
        ("fails", "r2: its memory ran out"),
        ("stuck", "it was not done within 10 s: r0 is changing on TP1 at GPU 0"),
        ("lies", "it was not done within 10 s: r0 is changing on TP1 at GPU 0"),
        ("dies", "r2 has restarted"),
    ],
)
def test_what_goes_wrong_is_named_and_taken_back(trap: str, why: str) -> None:
    group = OrderedGroup()
    group.traps["r2"] = trap
    last = outcome(group, ordered(group))
    assert last.phase == "failed"
    assert last.failure.partition("; then")[0] == why
    honest = [member for address, member in group.members.items() if address != "r2"]
    assert all(member.membership.state is MemberState.SERVING for member in honest)
    assert all(member.membership.span.width == 1 for member in honest)


def test_a_leader_that_says_done_and_serves_the_old_shape_is_found_out() -> None:
    group = OrderedGroup()
    group.traps["r0"] = "lies"
    last = outcome(group, ordered(group))
    assert last.failure.startswith(
        "it was not done within 10 s: r0 is serving on TP4 at GPU 0, and describes itself as TP1"
    )


def test_an_abort_that_comes_too_late_finds_the_change_done() -> None:
    group = OrderedGroup()
    *_, change = followed(group, ordered(group), rounds=2)
    assert change.phase == "transforming"
    late = change.to("aborting", 2.0, "it was late")
    assert advance(late, group.seen(), 3.0, 10.0).phase == "done"


def test_whoever_goes_on_orders_nothing_twice_that_was_heeded() -> None:
    group = OrderedGroup()
    changes = followed(group, ordered(group))
    assert next(changes).phase == "preparing"
    change = next(changes)
    assert change.phase == "transforming"
    assert to_tell(change, group.seen()) == ["r0", "r1", "r2", "r3"]
    group.hear("r0", order_of(change, 10.0), 2.0)  # type: ignore[arg-type]
    assert to_tell(change, group.seen()) == ["r1", "r2", "r3"]


def test_replicas_have_as_long_to_change_as_the_change_may_take() -> None:
    group = OrderedGroup()
    changes = [change for change in followed(group, ordered(group)) if change.phase not in ENDED]
    orders = [order for change in changes if (order := order_of(change, 30.0)) is not None]
    assert [(one.phase, one.timeout_ms) for one in orders] == [
        (ReshapePhase.PREPARE, 5000),
        (ReshapePhase.TRANSFORM, 30_000),
    ]
    assert order_of(changes[-1].to("aborting", 9.0), 30.0).timeout_ms == 5000  # type: ignore[union-attr]


def test_a_newer_change_ends_an_older_one() -> None:
    group = OrderedGroup()
    list(followed(group, msgspec.structs.replace(ordered(group), id=7), rounds=1))
    older = ordered(group)
    assert advance(older, group.seen(), 0.0, 10.0).failure == "r0 was ordered another change, 7"


@given(
    traps=st.dictionaries(REPLICAS, st.sampled_from(TRAPS), max_size=3),
    lost=st.dictionaries(st.integers(0, 30), st.sets(REPLICAS, max_size=2), max_size=8),
    restarts=st.dictionaries(st.integers(0, 30), REPLICAS, max_size=3),
    splits=st.booleans(),
)
def test_every_change_ends_and_says_done_only_where_it_is(
    traps: dict[str, str], lost: dict[int, set[str]], restarts: dict[int, str], splits: bool
) -> None:
    before, after = (WIDE, NARROW) if splits else (NARROW, WIDE)
    group = OrderedGroup(spans=list(before))
    group.traps = traps
    last = None
    for now, change in enumerate(followed(group, ordered(group, before, after), lost)):
        if change.phase == "transforming" and last is not None and last.phase == "preparing":
            # Nobody is ordered to transform before all are prepared.
            assert {one.membership.state for one in group.members.values()} == {MemberState.PREPARED}
        last = change
        if now in restarts:
            group.restart(restarts[now])
    assert last is not None
    assert last.phase in ENDED
    assert last.phase == "done" or last.failure
    if last.phase == "done" and not restarts:
        members: list[Member] = list(group.members.values())
        assert groups_of(members)["g"].spans == after
