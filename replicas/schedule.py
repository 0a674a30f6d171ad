"""A schedule of items by the decode clock at which they are due."""

import heapq
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: Later than any clock.
NEVER: Final = 1 << 62


class Schedule(Generic[T]):
    """Items by the clock at which they are due, each at most once; those of one clock in order of insertion."""

    def __init__(self) -> None:
        self._due: dict[int, dict[int, T]] = {}
        self._clocks: list[int] = []  # a heap of the keys of `_due`, with some that were taken already

    def add(self, clock: int, item: T) -> None:
        """Add an item that is due at a clock."""
        due = self._due.get(clock)
        if due is None:
            due = self._due[clock] = {}
            heapq.heappush(self._clocks, clock)
        due[id(item)] = item

    def drop(self, clock: int, item: T) -> None:
        """Remove the item, if it is due at that clock."""
        due = self._due.get(clock)
        if due is not None:
            due.pop(id(item), None)
            if not due:
                del self._due[clock]

    def take(self, clock: int) -> Iterable[T]:
        """Remove and return all items due at the clock; earlier clocks are over."""
        clocks = self._clocks
        while clocks and clocks[0] <= clock:
            heapq.heappop(clocks)
        due = self._due.pop(clock, None)
        return due.values() if due else ()

    def count(self, clock: int) -> int:
        """Return the number of items due at the clock."""
        return len(self._due.get(clock, ()))

    def next_from(self, clock: int) -> int:
        """Return the first clock from this one on at which an item is due, or `NEVER`; nothing earlier is due."""
        clocks = self._clocks
        while clocks and (clocks[0] < clock or clocks[0] not in self._due):
            heapq.heappop(clocks)
        return clocks[0] if clocks else NEVER
