"""What decisions come to over time: one change at a time, cool-downs, and no oscillation."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.reshape import Span
from replicas.reshape.decide import Change, ReshapeSettings, decide
from replicas.reshape.host_group import problem_of
from replicas.reshape.snapshot import HostGroup, ReshapeSnapshot, ShapedReplica, Width

WIDTHS = {1: Width(74_000, 1.6), 2: Width(200_000, 0.9), 4: Width(450_000, 0.5)}
SETTINGS = ReshapeSettings()
#: Seconds for which a long request runs.
RUNS = 20


class Fleet:
    """Groups of four GPUs, whose changes take no time, and long requests that each run at one wide replica."""

    def __init__(self, groups: int) -> None:
        self.shapes = {f"g{number}": list(Span(0, 4).halves(1)) for number in range(groups)}
        self.since = dict.fromkeys(self.shapes, float("-inf"))
        self.waiting: list[tuple[int, int]] = []
        #: The group, the span, the need and the end of each.
        self.running: list[tuple[str, Span, int, int]] = []
        self.arrived: list[int] = []
        self.changes: list[tuple[int, Change]] = []

    def second(self, now: int, needs: list[int], short_rate: float) -> None:
        self.running = [one for one in self.running if one[3] > now]
        self.waiting += [(need, now) for need in needs]
        self.arrived += [now] * len(needs)
        self._place(now)
        found = decide(self._snapshot(now, short_rate), SETTINGS, self._cost)
        assert len(found) <= 1
        for change in found:
            self._change(now, change)
        self._place(now)

    def _change(self, now: int, change: Change) -> None:
        spans = self.shapes[change.group]
        quiet = now - self.since[change.group]
        holds = max(WIDTHS[span.width].kv_tokens for spans in self.shapes.values() for span in spans)
        first = change.widens and holds < max((need for need, _ in self.waiting), default=0)
        assert quiet >= SETTINGS.cool_down or first, "a group keeps its shape, unless nothing holds a request"
        self.shapes[change.group] = sorted({*spans} - {*change.before} | {*change.after})
        assert problem_of(self.shapes[change.group], 4) == ""
        for place, (group, span, need, until) in enumerate(self.running):
            if group == change.group and span in change.before:
                heirs = [new for new in change.after if WIDTHS[new.width].kv_tokens >= need]
                assert heirs, "what runs has a place afterwards"
                self.running[place] = (group, heirs[0], need, until)
        self.since[change.group] = float(now)
        self.changes.append((now, change))

    def _place(self, now: int) -> None:
        left = []
        for need, since in self.waiting:
            free = [
                (group, span)
                for group, spans in self.shapes.items()
                for span in spans
                if WIDTHS[span.width].kv_tokens >= need and not self._needs(group, span)
            ]
            if free:
                self.running.append((*free[0], need, now + RUNS))
            else:
                left.append((need, since))
        self.waiting = left

    def _needs(self, group: str, span: Span) -> list[int]:
        return [one[2] for one in self.running if one[:2] == (group, span)]

    def _snapshot(self, now: int, short_rate: float) -> ReshapeSnapshot:
        groups = [
            HostGroup(
                name,
                4,
                tuple(
                    ShapedReplica(
                        f"{name}-{span.start}",
                        span,
                        sum(self._needs(name, span)),
                        max(self._needs(name, span), default=0),
                    )
                    for span in spans
                ),
                self.since[name],
            )
            for name, spans in self.shapes.items()
        ]
        recent = [at for at in self.arrived if at > now - 120]
        return ReshapeSnapshot(
            now=float(now),
            groups=groups,
            widths=WIDTHS,
            waiting=[need for need, _ in self.waiting],
            waiting_since=[float(since) for _, since in self.waiting],
            short_rate=short_rate,
            queued=short_rate > 1.6 * 4 * len(groups),
            long_rate=len(recent) / 120,
        )

    @staticmethod
    def _cost(group: HostGroup, replicas: tuple[ShapedReplica, ...], width: int) -> float:
        return 0.3 * max(width, *(replica.span.width for replica in replicas))


@settings(max_examples=40)
@given(
    groups=st.integers(1, 3),
    longs=st.dictionaries(st.integers(0, 299), st.integers(75_000, 450_000), max_size=25),
    rates=st.lists(st.floats(0.0, 30.0), min_size=1, max_size=6),
)
def test_changes_come_one_at_a_time_and_leave_groups_alone_in_between(
    groups: int, longs: dict[int, int], rates: list[float]
) -> None:
    fleet = Fleet(groups)
    for now in range(300):
        fleet.second(now, [longs[now]] if now in longs else [], rates[now * len(rates) // 300])
    # What widens, widens for a request that came; no change comes of itself.
    assert sum(change.widens for _, change in fleet.changes) <= len(longs)


@settings(max_examples=10)
@given(st.integers(40, 200), st.floats(4.0, 40.0))
def test_alternation_does_not_have_shapes_oscillate(period: int, short_rate: float) -> None:
    fleet = Fleet(2)
    for now in range(3600):
        fleet.second(now, [300_000] if now % period == 0 else [], short_rate if now % period > 5 else 0.0)
    for name in fleet.shapes:
        times = [now for now, change in fleet.changes if change.group == name]
        # There and back takes a cool-down at least, so that it is at most so often whatever the load.
        assert len(times) <= 2 * 3600 / max(period, SETTINGS.cool_down) + 2
    assert len(fleet.changes) <= 2 * 3600 / period + 2


def test_a_barred_group_is_passed_over() -> None:
    fleet = Fleet(2)
    fleet.waiting = [(300_000, 0)]
    snapshot = fleet._snapshot(10, 0.0)
    barred = [msgspec.structs.replace(group, barred="it drains") for group in snapshot.groups[:1]]
    (change,) = decide(msgspec.structs.replace(snapshot, groups=[*barred, snapshot.groups[1]]), SETTINGS, fleet._cost)
    assert change.group == "g1"
    everything = [msgspec.structs.replace(group, barred="it drains") for group in snapshot.groups]
    assert decide(msgspec.structs.replace(snapshot, groups=everything), SETTINGS, fleet._cost) == []
