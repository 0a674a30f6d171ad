"""When shapes change; a change costs two GPU seconds here unless a test says otherwise."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reshape import Span
from replicas.reshape.decide import Change, ReshapeSettings, decide, least_width
from replicas.reshape.host_group import problem_of
from replicas.reshape.snapshot import HostGroup, ReshapeSnapshot, ShapedReplica, Width

WIDTHS = {1: Width(1000, 1.0), 2: Width(3000, 0.8), 4: Width(8000, 0.5)}
SETTINGS = ReshapeSettings()


def group(name: str, widths: Sequence[int], used: int = 0, since: float = -1e9, held: str = "") -> HostGroup:
    replicas, start = [], 0
    for width in widths:
        replicas.append(ShapedReplica(f"{name}-{start}", Span(start, width), used))
        start += width
    return HostGroup(name, start, tuple(replicas), since, held)


def snapshot(*groups: HostGroup, **more: object) -> ReshapeSnapshot:
    return msgspec.structs.replace(ReshapeSnapshot(100.0, groups, WIDTHS), **more)


def cost(group: HostGroup, replicas: tuple[ShapedReplica, ...], width: int) -> float:
    return 2.0 + sum(replica.used for replica in replicas) / 1000


def decided(now: ReshapeSnapshot, settings: ReshapeSettings = SETTINGS) -> list[Change]:
    return decide(now, settings, cost)


def test_a_request_that_no_replica_holds_widens_the_cheapest_part_of_a_group_at_once() -> None:
    groups = (group("a", [1, 1, 1, 1], used=500), group("b", [1, 1, 1, 1]))
    (change,) = decided(snapshot(*groups, waiting=[2500], waiting_since=[100.0]))
    assert (change.group, change.before, change.after) == ("b", (Span(0, 1), Span(1, 1)), (Span(0, 2),))
    assert change.widens
    assert change.reason == "a request of 2500 tokens waits for a TP2 replica"


def test_long_requests_gather_at_the_wide_replica_that_is_there() -> None:
    groups = (group("a", [2, 1, 1]), group("b", [1, 1, 1, 1]))
    soon = snapshot(*groups, waiting=[2500], waiting_since=[99.0])
    assert decided(soon) == []
    late = snapshot(*groups, waiting=[2500], waiting_since=[97.0])
    assert [change.group for change in decided(late)] == ["a"]


def test_one_that_a_narrow_replica_holds_alone_has_another_made_wide_where_short_requests_can_spare_it() -> None:
    groups = (group("a", [1, 1, 1, 1]), group("b", [1, 1, 1, 1]))
    soon = snapshot(*groups, waiting=[500], waiting_since=[99.0], short_rate=4.0)
    assert decided(soon) == []
    late = msgspec.structs.replace(soon, waiting_since=[97.0])
    (change,) = decided(late)
    assert [span.width for span in change.after] == [2]
    assert decided(msgspec.structs.replace(late, short_rate=6.0)) == []
    # Two GPUs suffice for it, so that it makes nothing wider of what is wide already.
    assert decided(snapshot(group("a", [2, 2]), waiting=[500], waiting_since=[0.0])) == []


def test_the_longest_of_those_that_have_waited_counts() -> None:
    groups = (group("a", [2, 1, 1]), group("b", [1, 1, 1, 1]))
    (change,) = decided(snapshot(*groups, waiting=[500, 2500, 2900], waiting_since=[0.0, 0.0, 100.0]))
    assert change.reason == "a request of 2500 tokens waits for a TP2 replica"
    # Nothing holds it: it does not wait for those that something holds.
    (change,) = decided(snapshot(*groups, waiting=[500, 7000], waiting_since=[0.0, 100.0]))
    assert change.reason == "a request of 7000 tokens waits for a TP4 replica"


def test_no_more_is_widened_than_short_requests_can_spare() -> None:
    groups = (group("a", [2, 2]), group("b", [1, 1, 1, 1]))
    # Four narrow ones serve 4 a second, and the wide ones 0.8 a GPU; two narrow ones less leave 5.2.
    busy = snapshot(*groups, waiting=[2500], waiting_since=[0.0], short_rate=4.4)
    assert decided(busy) == []
    assert decided(busy, ReshapeSettings(headroom=1.0))
    assert decided(msgspec.structs.replace(busy, short_rate=2.0))


def test_one_that_fits_no_shape_changes_nothing() -> None:
    assert decided(snapshot(group("a", [1, 1, 1, 1]), waiting=[9000], waiting_since=[0.0])) == []
    assert least_width(snapshot(group("a", [1, 1])), 5000) is None


@pytest.mark.parametrize("held", ["a change is under way", "a rollout runs"])
def test_a_held_group_holds_all_changes(held: str) -> None:
    groups = (group("a", [1, 1], held=held), group("b", [1, 1]))
    assert decided(snapshot(*groups, waiting=[2500], waiting_since=[0.0])) == []
    assert decided(snapshot(group("a", [2], held=held), group("b", [2]), queued=True)) == []


def test_a_wide_replica_is_split_when_short_requests_queue_up_and_no_long_one_is_expected() -> None:
    (change,) = decided(snapshot(group("a", [4]), group("b", [1, 1, 1, 1]), queued=True))
    assert (change.before, change.after) == ((Span(0, 4),), tuple(Span(at, 1) for at in range(4)))
    assert not change.widens


def test_no_change_back_where_width_costs_nothing() -> None:
    assert decided(snapshot(group("a", [4]), short_rate=0.5)) == []


def test_no_change_back_before_the_next_long_request_would_undo_it() -> None:
    # Half of four GPUs is lost for 2 s until the next one: 4 GPU seconds, for changes of 2 each way.
    assert decided(snapshot(group("a", [4]), queued=True, long_rate=0.5)) == []
    assert decided(snapshot(group("a", [4]), queued=True, long_rate=0.1)) != []


def test_a_group_keeps_its_shape_for_a_while() -> None:
    assert decided(snapshot(group("a", [4], since=80.0), queued=True)) == []


def test_what_runs_there_must_fit_what_comes() -> None:
    running = HostGroup("a", 4, (ShapedReplica("a-0", Span(0, 4), 2000, longest=2500),))
    (change,) = decided(snapshot(running, queued=True))
    assert [span.width for span in change.after] == [2, 2]
    crowded = HostGroup("a", 4, (ShapedReplica("a-0", Span(0, 4), 7000, longest=500),))
    assert decided(snapshot(crowded, queued=True)) == []


PART = st.sampled_from([[1, 1, 1, 1], [2, 1, 1], [1, 1, 2], [2, 2], [4]])


@given(
    st.lists(st.tuples(PART, st.integers(0, 900), st.floats(0, 100)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1001, 9000), st.floats(0, 100)), max_size=4),
    st.floats(0, 12),
    st.booleans(),
    st.floats(0, 5),
)
def test_every_change_is_legal_and_there_is_at_most_one(
    parts: list[tuple[list[int], int, float]], waiting: list[tuple[int, float]], short: float, queued: bool, long: float
) -> None:
    groups = {f"g{at}": group(f"g{at}", widths, used, since) for at, (widths, used, since) in enumerate(parts)}
    needs, since = [need for need, _ in waiting], [at for _, at in waiting]
    changes = decided(
        snapshot(*groups.values(), waiting=needs, waiting_since=since, short_rate=short, queued=queued, long_rate=long)
    )
    assert len(changes) <= 1
    for change in changes:
        spans = groups[change.group].spans
        assert set(change.before) <= set(spans)
        after = [span for span in spans if span not in change.before] + [*change.after]
        assert not problem_of(after, 4)
