"""Hedging: two attempts at a request that is slow to start; the first to answer goes on alone."""

from collections.abc import Callable

from routing.contracts.transport import Event, Sink
from routing.dispatch.attempt import Attempt


class Gate:
    """The `Sink` of one of two racing attempts: its first token decides the race."""

    __slots__ = ("_attempt", "_sink", "_won")

    def __init__(self, attempt: Attempt, sink: Sink, won: Callable[[Attempt], None]) -> None:
        """`won` is called before the token goes on to `sink`; the attempt must put later tokens there itself."""
        self._attempt = attempt
        self._sink = sink
        self._won = won

    def put(self, event: Event) -> None:
        """Take the first token and end the race."""
        self._won(self._attempt)
        self._sink.put(event)


def race(one: Attempt, other: Attempt, won: Callable[[Attempt], None]) -> None:
    """Let two attempts race until `settle`."""
    for attempt, rival in ((one, other), (other, one)):
        attempt.rival = rival
        if attempt.leg is not None:
            attempt.leg.sink = Gate(attempt, attempt.sink, won)


def settle(attempt: Attempt) -> Attempt | None:
    """End the race in favour of `attempt`; return its rival, which the caller must close, if it had one."""
    rival, attempt.rival = attempt.rival, None
    if rival is not None:
        rival.rival = None
        for each in (attempt, rival):
            if each.leg is not None:
                each.leg.sink = each.sink
    return rival
