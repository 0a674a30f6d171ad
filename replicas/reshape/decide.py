"""When groups change their shapes: wide for requests that crowd narrow replicas, narrow where width costs more.

"Amoeba" (arXiv 2509.19729, Algorithm 1) gathers long requests on few instances and keeps the others for short ones. A
request is long where a narrow KV cache does not hold it, or hardly two like it: such requests wait there for room. A
group goes back only when what its width costs until the next long request exceeds what both changes cost.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Final

import msgspec

from protos.reshape import Span
from replicas.reshape.host_group import merges
from replicas.reshape.snapshot import HostGroup, ReshapeSnapshot, ShapedReplica


class Change(msgspec.Struct, frozen=True):
    """A change of one group: replicas of `before` become replicas of `after`, on the same GPUs."""

    group: str
    before: tuple[Span, ...]
    after: tuple[Span, ...]
    reason: str

    @property
    def widens(self) -> bool:
        """Whether fewer, wider replicas come of it."""
        return len(self.after) < len(self.before)


class ReshapeSettings(msgspec.Struct, frozen=True):
    """How readily shapes change.

    A long request waits for `patience` seconds at least for room at replicas that hold it, and then only as many
    more become wide that what is left serves `headroom` times the short requests. A group keeps its shape for
    `cool_down` seconds. A change back must gain `margin` times what both changes cost, within the `horizon` (seconds).
    """

    patience: float = 2.0
    cool_down: float = 30.0
    margin: float = 2.0
    horizon: float = 600.0
    headroom: float = 1.2


#: GPU seconds that a change takes: of a group's replicas, from widths to widths.
CostOf = Callable[[HostGroup, tuple[ShapedReplica, ...], int], float]
#: The share of their capacity from which on short requests feel what width costs.
BUSY: Final = 0.8


def decide(snapshot: ReshapeSnapshot, settings: ReshapeSettings, cost_of: CostOf) -> list[Change]:
    """Return the changes to begin now, at most one a group and one widening at a time."""
    widening = _widening(snapshot, settings, cost_of)
    if widening is not None:
        return [widening]
    if snapshot.waiting or any(group.held for group in snapshot.groups):
        return []
    return list(_narrowings(snapshot, settings, cost_of))[:1]


def _widening(snapshot: ReshapeSnapshot, settings: ReshapeSettings, cost_of: CostOf) -> Change | None:
    """The change that makes room for the longest of the requests that wait, if it is time for one."""
    if not snapshot.waiting or any(group.held for group in snapshot.groups):
        # What is under way may be the room that they wait for.
        return None
    need = max(snapshot.waiting)
    there = any(
        snapshot.widths[replica.span.width].kv_tokens >= need for group in snapshot.groups for replica in group.replicas
    )
    if there:
        waited = zip(snapshot.waiting, snapshot.waiting_since, strict=True)
        need = max((one for one, since in waited if snapshot.now - since >= settings.patience), default=0)
    width = least_width(snapshot, need) if need else None
    if width is None:
        return None
    options = [
        (cost_of(group, tuple(r for r in group.replicas if r.span in inside), width), group.name, span, inside)
        for group in snapshot.groups
        if not group.barred
        for span, inside in merges(group.spans, group.gpus, width)
        if not there or _can_be_spared(snapshot, settings, group, inside)
    ]
    worth = _worth_of_room(snapshot, settings)
    options = [option for option in options if settings.margin * option[0] <= worth]
    if not options:
        return None
    _, name, span, inside = min(options)
    return Change(name, inside, (span,), f"a request of {need} tokens waits for a TP{width} replica")


def _worth_of_room(snapshot: ReshapeSnapshot, settings: ReshapeSettings) -> float:
    """The GPU seconds that the long requests would take which a wide replica serves that wait or come in the horizon.

    They count by their KV tokens, as so many short ones.
    """
    if not snapshot.short_tokens:
        return inf
    coming = snapshot.long_rate * settings.horizon * sum(snapshot.waiting) / len(snapshot.waiting)
    as_short = (sum(snapshot.waiting) + coming) / snapshot.short_tokens
    return as_short / snapshot.widths[snapshot.narrowest].rate


def _can_be_spared(
    snapshot: ReshapeSnapshot, settings: ReshapeSettings, group: HostGroup, inside: tuple[Span, ...]
) -> bool:
    """Whether short requests do without these replicas, which have been as they are for long enough."""
    if snapshot.now - group.since < settings.cool_down:
        return False
    return snapshot.capacity(inside, group.name) >= settings.headroom * snapshot.short_rate


def _narrowings(snapshot: ReshapeSnapshot, settings: ReshapeSettings, cost_of: CostOf) -> Iterator[Change]:
    """The changes back that pay, the one with the largest gain first."""
    if not snapshot.queued and snapshot.short_rate < BUSY * snapshot.capacity():
        return
    until_next = min(settings.horizon, 1 / snapshot.long_rate if snapshot.long_rate else settings.horizon)
    found = []
    for group in snapshot.groups:
        if group.barred or snapshot.now - group.since < settings.cool_down:
            continue
        for replica in group.replicas:
            width = _narrower(snapshot, replica)
            if width is None:
                continue
            lost = 1 - snapshot.widths[replica.span.width].rate / snapshot.widths[width].rate
            gain = lost * replica.span.width * until_next
            price = cost_of(group, (replica,), width)
            if gain > settings.margin * 2 * price:
                found.append((gain - price, group.name, replica.span, width))
    for _, name, span, width in sorted(found, reverse=True):
        yield Change(name, (span,), span.halves(width), f"short requests are served faster by TP{width}")


def least_width(snapshot: ReshapeSnapshot, need: int) -> int | None:
    """Return the narrowest width for a long request of `need` KV tokens; None: there is none."""
    most = max(group.gpus for group in snapshot.groups)
    fits = [
        width
        for width, known in snapshot.widths.items()
        if snapshot.narrowest < width <= most and known.kv_tokens >= need
    ]
    return min(fits) if fits else None


def _narrower(snapshot: ReshapeSnapshot, replica: ShapedReplica) -> int | None:
    """The narrowest width whose replicas hold what a replica runs; None: only its own or wider ones do."""
    for width, known in sorted(snapshot.widths.items()):
        if width >= replica.span.width:
            return None
        room = known.kv_tokens * replica.span.width // width
        if replica.longest <= known.kv_tokens and replica.used <= room:
            return width
    return None
