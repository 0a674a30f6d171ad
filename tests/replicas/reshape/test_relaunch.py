import msgspec
from hypothesis import given
from hypothesis import strategies as st

from protos.reshape import Span
from replicas.reshape.decide import ReshapeSettings, decide
from replicas.reshape.ordered_change import ENDED
from replicas.reshape.relaunch import (
    FailedStart,
    Going,
    Kind,
    Relaunch,
    given_up,
    gone_on,
    gpu_seconds,
    groups_of_places,
    sizes_of,
)
from replicas.reshape.snapshot import ReshapeSnapshot, ShapedReplica, Width


def relaunch(*, narrow: int = 8, wide: int = 0, start: float | None = 60.0) -> Relaunch:
    return Relaunch(
        narrow=Kind(gpus=1, most=8, exist=narrow, ready=narrow, start_seconds=start, start_timeout=300.0),
        wide=Kind(gpus=4, most=2, exist=wide, ready=wide, start_seconds=start, start_timeout=300.0),
    )


class Pools:
    """Replicas that go a second after they may not run, and come `start` seconds after they may."""

    def __init__(self, narrow: int, wide: int, *, comes: bool = True, goes: bool = True) -> None:
        self.narrow, self.wide = narrow, wide
        self.comes, self.goes = comes, goes
        self.most_gpus = 0

    def follow(self, change: Going) -> None:
        sizes = sizes_of(change, self.seen())
        if self.goes:
            self.wide, self.narrow = min(self.wide, sizes.wide), min(self.narrow, sizes.narrow)
        if sizes.exactly and (self.comes or change.phase == "aborting"):
            self.wide, self.narrow = max(self.wide, sizes.wide), max(self.narrow, sizes.narrow)
        self.most_gpus = max(self.most_gpus, self.narrow + 4 * self.wide)

    def seen(self) -> Relaunch:
        return relaunch(narrow=self.narrow, wide=self.wide)


def outcome(pools: Pools, change: Going) -> tuple[Going, str]:
    why = ""
    for now in range(2000):
        phase, reason = gone_on(change, pools.seen(), float(now))
        why = reason or why
        if phase != change.phase:
            change = msgspec.structs.replace(change, phase=phase, since=float(now))
        if change.phase in ENDED:
            return change, why
        pools.follow(change)
    raise AssertionError(change)


def going(before: int, after: int, narrow: int) -> Going:
    return Going(before=before, after=after, narrow=narrow, phase="preparing", since=0.0)


def test_narrow_replicas_go_before_a_wide_one_comes() -> None:
    pools = Pools(8, 0)
    assert outcome(pools, going(0, 1, 8))[0].phase == "done"
    assert (pools.narrow, pools.wide, pools.most_gpus) == (4, 1, 8)


def test_where_gpus_are_free_nothing_goes() -> None:
    pools = Pools(3, 0)
    assert gone_on(going(0, 1, 3), pools.seen(), 0.0) == ("transforming", "")
    outcome(pools, going(0, 1, 3))
    assert (pools.narrow, pools.wide) == (3, 1)


def test_a_wide_replica_goes_before_narrow_ones_come() -> None:
    pools = Pools(4, 1)
    assert outcome(pools, going(1, 0, 4))[0].phase == "done"
    assert (pools.narrow, pools.wide, pools.most_gpus) == (8, 0, 8)


def test_what_does_not_come_up_is_put_back() -> None:
    pools = Pools(8, 0, comes=False)
    change, why = outcome(pools, going(0, 1, 8))
    assert (change.phase, why) == ("failed", "what comes was not ready within 300 s")
    assert (pools.narrow, pools.wide, pools.most_gpus) == (8, 0, 8)


def test_what_does_not_go_keeps_its_place() -> None:
    pools = Pools(8, 0, goes=False)
    change, why = outcome(pools, going(0, 1, 8))
    assert (change.phase, why) == ("failed", "what is to go has not gone within 120 s")
    assert (pools.narrow, pools.wide) == (8, 0)


@given(
    narrow=st.integers(0, 8), before=st.integers(0, 2), after=st.integers(0, 2), comes=st.booleans(), goes=st.booleans()
)
def test_places_are_never_taken_twice(narrow: int, before: int, after: int, comes: bool, goes: bool) -> None:
    narrow = min(narrow, 8 - 4 * before)
    if before == after:
        return
    pools = Pools(narrow, before, comes=comes, goes=goes)
    change, why = outcome(pools, going(before, after, narrow))
    assert pools.most_gpus <= 8
    assert (change.phase == "failed") == bool(why)
    if change.phase == "failed" and goes:
        assert (pools.wide, pools.narrow) == (before, narrow)
    if change.phase == "done":
        assert pools.wide == after


def test_shapes_of_places() -> None:
    pools = relaunch()
    assert pools.shape(1) == [4, 1, 1, 1, 1]
    assert [pools.wide_in(shape) for shape in ([4, 4], [1] * 8, [1, 4, 1, 1, 1], [4, 1], [2, 2, 4])] == [
        2,
        0,
        1,
        None,
        None,
    ]


def replicas(count: int, width: int = 1, used: int = 0) -> list[ShapedReplica]:
    return [ShapedReplica(f"r{number}", Span(0, width), used * (count - number)) for number in range(count)]


def test_places_with_least_to_lose_are_put_together() -> None:
    groups = groups_of_places(relaunch(), replicas(6, used=100), [])
    assert [[one.id for one in group.replicas] for group in groups] == [["", "", "r5", "r4"], ["r3", "r2", "r1", "r0"]]
    wide = groups_of_places(relaunch(), replicas(4), replicas(1, 4))
    assert [group.spans for group in wide] == [[Span(0, 4)], list(Span(0, 4).halves(1))]


def decided(long_rate: float, *, start: float | None = 60.0, short_tokens: float = 2000.0) -> bool:
    pools = relaunch(start=start)
    snapshot = ReshapeSnapshot(
        now=100.0,
        groups=groups_of_places(pools, replicas(8), []),
        widths={1: Width(74_000, 1.0), 4: Width(400_000, 0.5)},
        waiting=[100_000],
        waiting_since=[99.0],
        long_rate=long_rate,
        short_tokens=short_tokens,
    )
    cost = lambda group, inside, width: gpu_seconds(pools, inside, width, 30.0)  # noqa: E731 (as short as it is)
    return bool(decide(snapshot, ReshapeSettings(), cost))


def test_a_start_that_takes_long_must_be_worth_it() -> None:
    # 90 s of four GPUs, twice: worth 720 GPU seconds of requests, each of which is 50 short ones of a second.
    assert not decided(0.0)
    assert decided(0.03)
    assert not decided(0.03, start=600.0)
    assert not decided(10.0, start=None)
    # Where a change costs next to nothing, a request that waits is enough.
    assert decided(0.0, short_tokens=0.0)


def test_wide_replicas_that_do_not_come_up_any_more_are_given_up() -> None:
    def missing(*made: float) -> Kind:
        failed = [FailedStart(at, f"as of {at:g}") for at in made]
        return msgspec.structs.replace(relaunch().wide, failed=failed)

    assert given_up(missing(), 100.0, 400.0) == ""
    assert given_up(missing(), 100.0, 401.0) == "what comes was not ready within 300 s"
    # Starts before one was missing have failed for other reasons.
    assert given_up(missing(10.0, 20.0, 100.0, 110.0, 120.0), 100.0, 130.0) == ""
    assert given_up(missing(100.0, 110.0, 120.0, 130.0), 100.0, 130.0) == (
        "4 starts failed one after the other, the last one: as of 130"
    )


def test_a_change_that_falls_back_ends_though_not_all_narrow_ones_are_ready() -> None:
    change = msgspec.structs.replace(going(1, 0, 4), phase="transforming")
    assert gone_on(change, relaunch(narrow=7), 301.0)[0] == "aborting"
    back = msgspec.structs.replace(change, falls_back=True)
    assert gone_on(back, relaunch(narrow=7), 300.0) == ("transforming", "")
    assert gone_on(back, relaunch(narrow=7), 301.0) == ("done", "")
