"""Requests that had better wait, as their policy says: gateway/scheduling with one tenant, in virtual time."""

from collections.abc import Callable
from itertools import islice
from typing import Final

from loadtest.simulation.simulated_requests import TimedRequest
from routing.contracts.policy import Decision, RouteRequest

#: Behind the oldest, how many are tried too.
OVERTAKERS: Final = 8
#: How long the oldest finds no place before its replicas are kept for it.
HOLD_SECONDS: Final = 1.0
_NOTHING: Final[frozenset[str]] = frozenset()


class Waiter:
    """One request that waits, with what was last known of it."""

    __slots__ = ("number", "request", "timed")

    def __init__(self, number: int, timed: TimedRequest, request: RouteRequest) -> None:
        self.number = number
        self.timed = timed
        self.request = request


class Line:
    """First in, first out, but that the first few may pass those before them which find no place.

    Once the oldest has found none for a while, the replicas that it would go to are kept free of others, so that it
    does not starve.
    """

    def __init__(self) -> None:
        self._waiters: dict[int, Waiter] = {}
        self._oldest: Waiter | None = None
        self._since = 0.0
        self._kept = _NOTHING

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def add(self, waiter: Waiter) -> None:
        """A request joins at the end."""
        self._waiters[waiter.number] = waiter

    def serve(
        self,
        now: float,
        place: Callable[[Waiter, frozenset[str]], bool],
        prefers: Callable[[Waiter], Decision],
    ) -> None:
        """Let through whoever `place` finds a place for, away from the replicas that it is given.

        `prefers` says where a request would go if it could not wait.
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

    def _keep(self, now: float, prefers: Callable[[Waiter], Decision]) -> None:
        oldest = next(iter(self._waiters.values()), None)
        if oldest is not self._oldest:
            self._oldest, self._since, self._kept = oldest, now, _NOTHING
        elif oldest is not None and not self._kept and now - self._since >= HOLD_SECONDS:
            decision = prefers(oldest)
            self._kept = frozenset({decision.replica.id, decision.entry.id})
