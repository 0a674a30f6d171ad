import msgspec
import pytest

from protos.reshape import MemberState, Span
from replicas.reshape.group_view import GroupView, Member, groups_of
from replicas.reshape.obstacles import difference, obstacle, widths_of
from tests.ordered_group import WIDTHS, members_on, membership

NARROW = list(Span(0, 4).halves(1))
PAIRS = list(Span(0, 4).halves(2))
WIDE = [Span(0, 4)]


def view(members: list[Member]) -> GroupView:
    (found,) = groups_of(members).values()
    return found


@pytest.mark.parametrize("spans", [NARROW, PAIRS, WIDE, [Span(0, 2), Span(2, 1), Span(3, 1)]])
def test_a_legal_group_has_no_problem(spans: list[Span]) -> None:
    group = view(members_on(spans))
    assert (group.problem, group.spans) == ("", tuple(spans))


def why(group: GroupView, shape: list[Span]) -> str:
    holds = {width: one.kv_tokens for width, one in widths_of(group.members).items()}
    return obstacle(group.gpus, group.replicas, holds, shape)


def changed(members: list[Member], place: int, **fields: object) -> GroupView:
    one = members[place]
    said = msgspec.structs.replace(one.membership, **fields)
    members[place] = msgspec.structs.replace(one, membership=said)
    return view(members)


def test_what_is_wrong_is_named() -> None:
    assert view(members_on(NARROW)[1:]).problem == "GPU 0 belongs to no replica"
    twice = msgspec.structs.replace(members_on(NARROW)[1], address="other")
    assert view([*members_on(NARROW), twice]).problem == "other and r1 both have GPU 1"
    assert changed(members_on(NARROW), 0, gpus=8).problem == "its replicas say that it has 4 and 8 GPUs"
    assert changed(members_on(WIDE), 2, served_by=7).problem == "r2 is parked for another replica than r0"
    lie = changed(members_on(WIDE), 0, info=members_on(NARROW)[0].membership.info)
    assert lie.problem == "r0 serves TP4 and describes itself as TP1"
    alone = changed(
        members_on(WIDE), 2, state=MemberState.SERVING, span=Span(2, 1), info=members_on(NARROW)[0].membership.info
    )
    assert alone.problem == "GPU 2 belongs to two replicas"


def test_groups_are_told_apart() -> None:
    assert list(groups_of([*members_on(NARROW, group="b", form="b{}"), *members_on(WIDE, group="a")])) == ["a", "b"]


def test_a_shape_that_can_be_reached_meets_no_obstacle() -> None:
    assert why(view(members_on(NARROW)), WIDE) == ""
    assert why(view(members_on(WIDE)), PAIRS) == ""
    assert why(view(members_on(WIDE)), NARROW) == ""
    assert difference(NARROW, [Span(0, 2), Span(2, 1), Span(3, 1)]) == ((Span(0, 1), Span(1, 1)), (Span(0, 2),))


def test_obstacles_are_named() -> None:
    group = view(members_on(NARROW))
    assert why(group, NARROW) == "it has that shape"
    assert why(group, [Span(1, 2), Span(0, 1), Span(3, 1)]) == "TP2 cannot begin at GPU 1"
    fixed = [msgspec.structs.replace(m, membership=membership(m.gpu, Span(m.gpu, 1), widths=())) for m in group.members]
    assert why(view(fixed), WIDE) == "its engines cannot change their shapes while they serve"
    poor = [msgspec.structs.replace(m, membership=membership(m.gpu, Span(m.gpu, 1), widths=WIDTHS[:2])) for m in fixed]
    assert why(view(poor), WIDE) == "its engines cannot be TP4: they can be TP1, TP2"


def test_what_memory_cannot_hold_is_refused() -> None:
    group = members_on(WIDE)
    long = [msgspec.structs.replace(group[0], longest=100_000), *group[1:]]
    assert why(view(long), NARROW) == "r0 runs a request of 100000 KV tokens, and TP1 holds 74000"
    full = [msgspec.structs.replace(group[0], used=300_000, longest=900), *group[1:]]
    assert why(view(full), NARROW) == "r0 uses 300000 KV tokens, and what comes in its place holds fewer"
    assert why(view(full), PAIRS) == ""


def test_the_poorest_says_what_a_width_holds() -> None:
    members = members_on(NARROW)
    poorer = [msgspec.structs.replace(width, kv_tokens=width.kv_tokens // 2, change_ms=900) for width in WIDTHS[:2]]
    members[1] = msgspec.structs.replace(members[1], membership=membership(1, Span(1, 1), widths=tuple(poorer)))
    found = widths_of(members)
    assert list(found) == [1, 2]
    assert (found[1].kv_tokens, found[1].change_ms) == (37_000, 900)
