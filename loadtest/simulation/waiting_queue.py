"""The queue of requests that a policy lets wait: the admission queue with one tenant, in virtual time."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from loadtest.simulation.simulated_requests import TimedRequest
from routing.contracts.policy import Decision, RouteRequest

if TYPE_CHECKING:
    from loadtest.simulation.flight import Flight

#: Number of requests behind the oldest that are tried too.
OVERTAKERS: Final = 8
#: Seconds without a place after which replicas are reserved for the oldest.
HOLD_SECONDS: Final = 1.0
_NOTHING: Final[frozenset[str]] = frozenset()


class Waiter:
    """One waiting request, with its last route request; `flight` is that of one that has left a replica."""

    __slots__ = ("flight", "number", "request", "timed")

    def __init__(self, number: int, timed: TimedRequest, request: RouteRequest, flight: "Flight | None" = None) -> None:
        self.flight = flight
        self.number = number
        self.timed = timed
        self.request = request


class WaitingQueue:
    """First in, first out, except that the first few may overtake those that find no place.

    Once the oldest has found none for a while, the replicas that it would go to are reserved for it, so that it does
    not starve.
    """

    def __init__(self) -> None:
        self._waiters: dict[int, Waiter] = {}
        self._oldest: Waiter | None = None
        self._since = 0.0
        self._kept = _NOTHING

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters.values())

    @property
    def oldest_arrival(self) -> float | None:
        """The arrival of the first in line; None: nobody waits."""
        return next((waiter.timed.arrival for waiter in self._waiters.values()), None)

    def add(self, waiter: Waiter) -> None:
        """Append a request."""
        self._waiters[waiter.number] = waiter

    def serve(
        self,
        now: float,
        place: Callable[[Waiter, frozenset[str]], bool],
        prefers: Callable[[Waiter], Decision | None],
    ) -> None:
        """Admit the requests that `place` finds a replica for, other than the reserved ones that it is given.

        `prefers` returns the decision for a request if it could not wait, or None.
        """
        placed = True
        while self._waiters and placed:
            placed = False
            for waiter in [*islice(self._waiters.values(), 1 + OVERTAKERS)]:
                if place(waiter, _NOTHING if waiter is self._oldest else self._kept):
                    del self._waiters[waiter.number]
                    placed = True
                    break
        self._keep(now, prefers)

    def _keep(self, now: float, prefers: Callable[[Waiter], Decision | None]) -> None:
        oldest = next(iter(self._waiters.values()), None)
        if oldest is not self._oldest:
            self._oldest, self._since, self._kept = oldest, now, _NOTHING
        elif oldest is not None and not self._kept and now - self._since >= HOLD_SECONDS:
            decision = prefers(oldest)
            if decision is not None:
                self._kept = frozenset({decision.replica.id, decision.entry.id})
