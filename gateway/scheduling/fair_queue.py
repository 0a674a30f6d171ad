"""Start-time fair queueing over tenants.

Each waiting tenant has a start tag in virtual time; the smallest is next, and its tag becomes the virtual time. Being
served moves a tenant's tag on by the cost of the request over the tenant's weight, so that over any stretch in which
two tenants wait, each is served in proportion to its weight to within one request of either. A tenant that comes
back starts at the virtual time: it neither gained anything by being away nor can it escape what it was just charged.
(Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996.)
"""

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

#: Tenants without waiting work that are remembered; beyond, those charged least are forgotten.
MAX_IDLE = 1024
#: Items of one kind that a tenant is offered after its oldest one of that kind is refused.
MAX_OVERTAKING = 8
#: Removed entries allowed in a tenant's queue before it is compacted, beyond as many as are waiting.
_SLACK = 16


def cost_of(input_tokens: int, output_tokens: int) -> int:
    """The cost of a request. An output token counts twice: it is decoded in a step of its own, and holds KV longer."""
    return input_tokens + 2 * output_tokens


class Entry(Generic[T]):
    """One waiting item; `waiting` turns False when it is served or removed."""

    __slots__ = ("_tenant", "cost", "item", "kind", "waiting", "weight")

    def __init__(self, tenant: "_Tenant[T]", weight: float, cost: float, item: T, kind: Hashable) -> None:
        self._tenant = tenant
        self.weight = weight
        self.cost = cost
        self.item = item
        self.kind = kind
        self.waiting = True


class _Tenant(Generic[T]):
    """`start` is the start tag of the next request while one waits, else the earliest tag for the next one."""

    __slots__ = ("kinds", "line", "name", "stamp", "start", "waiting")

    def __init__(self, name: str, start: float) -> None:
        self.name = name
        self.start = start
        self.line: deque[Entry[T]] = deque()
        self.waiting = 0
        self.kinds: Counter[Hashable] = Counter()  # of waiting entries
        self.stamp = 0  # of its only valid heap entry


class FairQueue(Generic[T]):
    """A fair queue by weight between tenants; every operation is O(log tenants).

    First in, first out within a tenant, but that the first few of each kind may pass those before them which are
    refused: what is refused for its kind must not hold up others for which there is room.
    """

    def __init__(self) -> None:
        self.waiting = 0
        #: Total cost of all waiting items.
        self.cost = 0.0
        self._virtual = 0.0
        self._tenants: dict[str, _Tenant[T]] = {}
        self._next: list[tuple[float, int, _Tenant[T]]] = []  # (start, stamp, tenant) of tenants with waiting items
        self._idle: list[tuple[float, int, _Tenant[T]]] = []  # the same for idle tenants
        self._stamps = itertools.count(1)

    def depth(self, tenant: str) -> int:
        """Number of the tenant's waiting items."""
        known = self._tenants.get(tenant)
        return known.waiting if known is not None else 0

    def depths(self) -> dict[str, int]:
        """Number of waiting items by tenant, without zeros."""
        return {name: tenant.waiting for name, tenant in self._tenants.items() if tenant.waiting}

    def push(self, tenant: str, weight: float, cost: float, item: T, kind: Hashable = None) -> Entry[T]:
        """Append an item to its tenant's queue; items of one kind can be served by the same replicas."""
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant(tenant, self._virtual)
        entry = Entry(known, weight, cost, item, kind)
        known.line.append(entry)
        known.waiting += 1
        known.kinds[kind] += 1
        self.waiting += 1
        self.cost += cost
        if known.waiting == 1:
            self._enlist(known, max(self._virtual, known.start))
        return entry

    def is_alone(self, entry: Entry[T], others: Hashable) -> bool:
        """Whether all other waiting items of its tenant are of the kind `others`, and this one is not."""
        tenant = entry._tenant
        return entry.kind != others and tenant.waiting == 1 + tenant.kinds[others]

    def change_kind(self, entry: Entry[T], kind: Hashable) -> None:
        """Let a waiting item be of another kind, in its place."""
        tenant = entry._tenant
        tenant.kinds[entry.kind] -= 1
        if not tenant.kinds[entry.kind]:
            del tenant.kinds[entry.kind]
        entry.kind = kind
        tenant.kinds[kind] += 1

    def remove(self, entry: Entry[T]) -> None:
        """Remove an item. Its tenant keeps its place and is not charged."""
        if not entry.waiting:
            return
        tenant = entry._tenant
        self._drop(tenant, entry)
        if not self.waiting:
            self._reset()
        elif not tenant.waiting:
            tenant.line.clear()
            self._dismiss(tenant)
        elif len(tenant.line) > 2 * tenant.waiting + _SLACK:
            tenant.line = deque(other for other in tenant.line if other.waiting)

    def serve(self, take: Callable[[T], bool]) -> None:
        """Offer items in fair order, the oldest few of each tenant and kind, until `take` accepts no more.

        A tenant whose items are refused is passed over for this time. It keeps its turn, but at most one request's
        worth of it: what it could not use for lack of room must not let it shut out others later.
        """
        passed: list[_Tenant[T]] = []
        try:
            while self._next:
                _, stamp, tenant = heapq.heappop(self._next)
                if stamp != tenant.stamp:
                    continue
                passed.append(tenant)
                for entry in _oldest(tenant):
                    if take(entry.item):
                        passed.pop()
                        self._serve(tenant, entry)
                        break
        finally:
            for tenant in passed:
                head = _head(tenant)
                self._enlist(tenant, max(tenant.start, self._virtual - head.cost / head.weight))

    def serve_alone(self, entry: Entry[T]) -> None:
        """Serve the only waiting item of its tenant, after `serve` has found that no other item is accepted."""
        self._serve(entry._tenant, entry)

    def charge(self, tenant: str, weight: float, more: float) -> None:
        """Correct a tenant's charge once the true cost is known; `more` may be negative.

        While nothing waits there is nothing to be fair about, and nothing is remembered.
        """
        if not self.waiting:
            return
        known = self._tenants.get(tenant)
        if known is None:
            if more <= 0:
                return
            known = self._tenants[tenant] = _Tenant(tenant, self._virtual)
        start = max(min(self._virtual, known.start), known.start + more / weight)
        if known.waiting:
            self._enlist(known, start)
        else:
            known.start = start
            self._dismiss(known)

    def _serve(self, tenant: _Tenant[T], entry: Entry[T]) -> None:
        self._virtual = max(self._virtual, tenant.start)
        self._drop(tenant, entry)
        tenant.start += entry.cost / entry.weight
        if not self.waiting:
            self._reset()
            return
        if tenant.waiting:
            self._enlist(tenant, tenant.start)
        else:
            tenant.line.clear()
            self._dismiss(tenant)
        self._forget_idle()

    def _drop(self, tenant: _Tenant[T], entry: Entry[T]) -> None:
        entry.waiting = False
        tenant.waiting -= 1
        tenant.kinds[entry.kind] -= 1
        if not tenant.kinds[entry.kind]:
            del tenant.kinds[entry.kind]
        self.waiting -= 1
        self.cost -= entry.cost

    def _enlist(self, tenant: _Tenant[T], start: float) -> None:
        tenant.start, tenant.stamp = start, next(self._stamps)
        heapq.heappush(self._next, (start, tenant.stamp, tenant))

    def _dismiss(self, tenant: _Tenant[T]) -> None:
        """Remember a tenant with nothing waiting until virtual time has passed its tag."""
        tenant.stamp = next(self._stamps)
        heapq.heappush(self._idle, (tenant.start, tenant.stamp, tenant))

    def _forget_idle(self) -> None:
        while self._idle and (self._idle[0][0] <= self._virtual or len(self._idle) > MAX_IDLE):
            _, stamp, tenant = heapq.heappop(self._idle)
            if stamp == tenant.stamp:
                del self._tenants[tenant.name]

    def _reset(self) -> None:
        """Start over when nothing waits: the busy period is over, and fairness with it."""
        self._tenants.clear()
        self._next.clear()
        self._idle.clear()
        self._virtual = self.cost = 0.0


def _head(tenant: _Tenant[T]) -> Entry[T]:
    """The oldest waiting item of a tenant; drops removed ones before it."""
    while not tenant.line[0].waiting:
        tenant.line.popleft()
    return tenant.line[0]


def _oldest(tenant: _Tenant[T]) -> Iterator[Entry[T]]:
    """Yield the oldest items of each kind of a tenant, as long as none is taken."""
    _head(tenant)
    waiting = (entry for entry in tenant.line if entry.waiting)
    if len(tenant.kinds) == 1:
        return itertools.islice(waiting, 1 + MAX_OVERTAKING)
    return _oldest_of_each(waiting, len(tenant.kinds))


def _oldest_of_each(waiting: Iterator[Entry[T]], kinds: int) -> Iterator[Entry[T]]:
    offered: Counter[Hashable] = Counter()
    for entry in waiting:
        if offered[entry.kind] <= MAX_OVERTAKING:
            offered[entry.kind] += 1
            yield entry
            if offered[entry.kind] > MAX_OVERTAKING:
                kinds -= 1
                if not kinds:
                    return
