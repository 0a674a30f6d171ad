"""Changes of shape by other replicas in place of those that are there, where engines cannot change in place.

Wide replicas take the places of narrow ones, so many each. Each step is a bound of how many replicas of either kind may
run: whoever starts and stops them brings them there. What a change does depends on its phase and on what runs alone.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from protos.reshape import Span
from replicas.reshape.host_group import spans_of
from replicas.reshape.ordered_change import Phase
from replicas.reshape.snapshot import HostGroup, ShapedReplica

#: Seconds for which replicas that are to go may take, beyond what their requests get to go on elsewhere.
GOING_SECONDS: Final = 120.0
#: Starts of wide replicas that fail, one after the other, before no other one is waited for.
MOST_FAILED_STARTS: Final = 4


class FailedStart(msgspec.Struct, frozen=True):
    """A start that failed lately: when it was asked for, and why it failed."""

    made: float
    problem: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of replicas: `gpus` of each, at most `most` of them; those that `exist` in any state, and are `ready`.

    `start_seconds` is what a start takes, None: nobody knows. A start has failed after `start_timeout` seconds, or when
    its launcher says so: those are in `failed`, the newest last.
    """

    gpus: int
    most: int
    exist: int
    ready: int
    start_seconds: float | None
    start_timeout: float
    failed: Sequence[FailedStart] = ()


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas may run: `wide` of the one kind, at most `narrow` of the other; with `exactly`, so many."""

    wide: int
    narrow: int
    exactly: bool = False


class Relaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Two kinds of replicas that take each other's places."""

    narrow: Kind
    wide: Kind

    @property
    def each(self) -> int:
        """Narrow replicas in whose place a wide one is."""
        return self.wide.gpus // self.narrow.gpus

    @property
    def most_wide(self) -> int:
        """Wide replicas there may be at most."""
        return min(self.wide.most, self.narrow.most // self.each)

    def narrow_beside(self, wide: int) -> int:
        """Narrow replicas that there may be beside so many wide ones."""
        return self.narrow.most - wide * self.each

    def shape(self, wide: int) -> list[int]:
        """Return the widths of all places, where so many of them are wide: those come first."""
        return [self.wide.gpus] * wide + [self.narrow.gpus] * self.narrow_beside(wide)

    def wide_in(self, shape: Sequence[int]) -> int | None:
        """Return how many replicas of a shape are wide; None: the places cannot have it."""
        wide = sum(width == self.wide.gpus for width in shape)
        possible = 0 <= wide <= self.most_wide and sorted(shape) == sorted(self.shape(wide))
        return wide if possible else None


class Going(msgspec.Struct, frozen=True, kw_only=True):
    """A change from `before` to `after` wide replicas, `narrow` of the others having run when it began.

    One that `falls_back` is made as wide replicas do not come up: it is not taken back.
    """

    before: int
    after: int
    narrow: int
    phase: Phase
    since: float
    falls_back: bool = False


def sizes_of(change: Going, relaunch: Relaunch) -> Sizes:
    """Return how many replicas may run now; `preparing` makes room, `transforming` starts, `aborting` puts back."""
    after = min(change.narrow, relaunch.narrow_beside(change.after))
    if change.phase == "done":
        return Sizes(wide=change.after, narrow=relaunch.narrow_beside(change.after))
    if change.phase in ("failed", "claimed"):
        return Sizes(wide=change.before, narrow=relaunch.narrow_beside(change.before))
    if change.phase == "aborting":
        # What came is stopped first, where it has places of what is put back.
        if change.after > change.before:
            gone = relaunch.wide.exist <= change.before
            return Sizes(wide=change.before, narrow=change.narrow if gone else after, exactly=True)
        gone = relaunch.narrow.exist <= relaunch.narrow_beside(change.before)
        return Sizes(wide=change.before if gone else change.after, narrow=change.narrow, exactly=True)
    if change.after > change.before:
        return Sizes(wide=change.after if change.phase == "transforming" else change.before, narrow=after, exactly=True)
    back = change.narrow + (change.before - change.after) * relaunch.each
    return Sizes(wide=change.after, narrow=back if change.phase == "transforming" else change.narrow, exactly=True)


def gone_on(change: Going, relaunch: Relaunch, now: float) -> tuple[Phase, str]:
    """Return the phase of a change as it is by what runs, and why it fails where it does."""
    sizes, lasted = sizes_of(change, relaunch), now - change.since
    widens = change.after > change.before
    coming = relaunch.wide if widens else relaunch.narrow
    if change.phase == "preparing":
        # Room is made once those that go do not exist any more, whatever their launcher calls them.
        made = relaunch.narrow.exist <= sizes.narrow if widens else relaunch.wide.exist <= sizes.wide
        if made:
            return "transforming", ""
        if lasted > GOING_SECONDS:
            return "aborting", f"what is to go has not gone within {GOING_SECONDS:.0f} s"
    elif change.phase == "transforming":
        wanted = sizes.wide if widens else sizes.narrow
        if coming.ready >= wanted:
            return "done", ""
        if widens and (problem := given_up(coming, change.since, now)):
            return "aborting", problem
        if not widens and lasted > coming.start_timeout:
            # Some of the narrow ones may be ready, where what was there cannot be.
            return ("done", "") if change.falls_back else ("aborting", _not_ready(coming))
    elif change.phase == "aborting":
        back = relaunch.wide.ready >= change.before and relaunch.narrow.ready >= change.narrow
        gone = relaunch.wide.exist <= change.before
        if back and gone:
            return "failed", ""
        limit = GOING_SECONDS + max(relaunch.narrow.start_timeout, relaunch.wide.start_timeout)
        if lasted > limit:
            return "failed", f"what was there is not ready again after {limit:.0f} s"
    return change.phase, ""


def given_up(wide: Kind, since: float, now: float) -> str:
    """Say why no wide replica is waited for any more, where one has been missing since then; empty: one may come."""
    failed = [one for one in wide.failed if one.made >= since]
    if len(failed) >= MOST_FAILED_STARTS:
        return f"{len(failed)} starts failed one after the other, the last one: {failed[-1].problem}"
    if now - since <= wide.start_timeout:
        return ""
    return _not_ready(wide) + (f", and its last start failed: {failed[-1].problem}" if failed else "")


def groups_of_places(
    relaunch: Relaunch, narrow: Sequence[ShapedReplica], wide: Sequence[ShapedReplica]
) -> list[HostGroup]:
    """Return places as groups, each of as many GPUs as a wide replica has.

    The narrow replicas that have least to lose, and places where none runs, are put together. Spans of replicas say
    nothing but their widths here.
    """
    groups = [
        HostGroup(f"{number:03}", relaunch.wide.gpus, (_on(one, Span(0, relaunch.wide.gpus)),))
        for number, one in enumerate(wide)
    ]
    free = max(relaunch.narrow_beside(len(wide)) - len(narrow), 0)
    places = [ShapedReplica("", Span(0, relaunch.narrow.gpus), 0) for _ in range(free)]
    places += sorted(narrow, key=lambda one: (one.used, one.id))
    spans = spans_of([relaunch.narrow.gpus] * relaunch.each)
    whole = len(places) - len(places) % relaunch.each
    for start in range(0, whole, relaunch.each):
        chunk = places[start : start + relaunch.each]
        replicas = tuple(_on(one, span) for one, span in zip(chunk, spans, strict=True))
        groups.append(HostGroup(f"{len(groups):03}", relaunch.wide.gpus, replicas))
    return groups


def gpu_seconds(relaunch: Relaunch, replicas: Sequence[ShapedReplica], width: int, drain_seconds: float) -> float:
    """Return the GPU seconds in which nothing is served: until what runs has drained, and what comes is ready.

    Infinite where nobody knows what a start takes.
    """
    coming = relaunch.wide if width == relaunch.wide.gpus else relaunch.narrow
    if coming.start_seconds is None:
        return float("inf")
    drains = any(replica.id for replica in replicas)
    return ((drain_seconds if drains else 0.0) + coming.start_seconds) * relaunch.wide.gpus


def _not_ready(coming: Kind) -> str:
    return f"what comes was not ready within {coming.start_timeout:.0f} s"


def _on(replica: ShapedReplica, span: Span) -> ShapedReplica:
    return msgspec.structs.replace(replica, span=span)
