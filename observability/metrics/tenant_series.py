"""Choose the tenants with series of their own: a bounded number, the same in all workers, none ever replaced.

A tenant that comes first takes a place at once while more than a quarter of them are free. The last quarter is kept
for tenants that come repeatedly. The worker that holds the list that all workers share
(observability/metrics/series_slots.py) assigns places about once a second; until then a newcomer's numbers are kept
apart and not shown, so that nothing is ever counted under one name and later under another.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from observability.metrics.metric import NOTHING, OTHER
from observability.metrics.names import label

#: The share of places reserved for frequent tenants, and the requests that make a tenant frequent.
EARNED_PART: Final = 0.25
EARNED_REQUESTS: Final = 10


class Wanted(NamedTuple):
    """Labels with a place, those waiting for one, and those that have earned one; the most frequent first."""

    placed: list[str]
    pending: list[str]
    earned: list[str]


def places(wanted: Wanted, given: Collection[str], most: int) -> list[str]:
    """Assign places: those `given` first, in their order."""
    names = dict.fromkeys((*given, *wanted.placed))
    for candidates, bound in ((wanted.earned, most), (wanted.pending, free_places(most))):
        for name in candidates:
            if len(names) < bound:
                names[name] = None
    return list(names)


class TenantNames:
    """One worker's view of the tenants' labels. `most` is the number of places for all workers."""

    def __init__(self, most: int) -> None:
        self._most = most
        #: Labels of tenants whose numbers may be shown or that wait for a place.
        self._shown: dict[str, str] = {"": NOTHING}
        self._placed: set[str] = set()
        self._pending: set[str] = set()
        #: Fading request counts of tenants without a place, so that many passing ones leave nothing behind.
        self._counts: dict[str, int] = {}

    def shown(self, tenant: str) -> str:
        """Return the label of a request's tenant, and count the request."""
        found = self._shown.get(tenant)
        return found if found is not None else self._newcomer(tenant)

    def labels(self, tenants: Sequence[str]) -> Mapping[str, str]:
        """Return the labels of requests' tenants, one for each request, by name; and count the requests."""
        if self._shown.keys() >= set(tenants):
            return self._shown
        return {tenant: self.shown(tenant) for tenant in tenants}

    @property
    def pending(self) -> Collection[str]:
        """Return labels that wait for a place: their numbers must not be shown yet."""
        return self._pending

    @property
    def has_candidates(self) -> bool:
        """Return whether there are tenants without a place, so that other workers' assignments matter."""
        return bool(self._pending or self._counts)

    def wanted(self) -> Wanted:
        """Return this worker's labels with places and its candidates."""
        earned = [name for name, count in self._counts.items() if count >= EARNED_REQUESTS]
        earned.sort(key=lambda name: -self._counts[name])
        return Wanted(sorted(self._placed), list(self._pending), earned)

    def settle(self, wanted: Wanted, placed: Iterable[str]) -> set[str]:
        """Adopt all labels that have a place by now. Return those that waited in vain: they are `other` from now on."""
        self._placed.update(placed)
        refused = {name for name in wanted.pending if name not in self._placed}
        self._pending.difference_update(wanted.pending)
        self._shown = {name: shown for name, shown in self._shown.items() if shown not in refused}
        for name in refused:
            self._count(name)
        for name in self._placed.intersection(self._counts):
            del self._counts[name]
        return refused

    def _newcomer(self, tenant: str) -> str:
        shown = label(tenant)
        if shown in self._placed or shown in self._pending:
            self._shown[tenant] = shown
            return shown
        if len(self._placed) + len(self._pending) < free_places(self._most) and shown not in self._counts:
            self._pending.add(shown)
            self._shown[tenant] = shown
            return shown
        self._count(shown)
        return OTHER

    def _count(self, shown: str) -> None:
        self._counts[shown] = self._counts.get(shown, 0) + 1
        if len(self._counts) > 4 * self._most:
            self._counts = {name: count // 2 for name, count in self._counts.items() if count > 1}


def free_places(most: int) -> int:
    """Return how many of all places go to newcomers."""
    return most - int(most * EARNED_PART)
