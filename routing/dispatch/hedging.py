"""Two attempts at one request where the first is slow to answer: whichever says something first goes on alone."""

from collections.abc import Callable

from routing.contracts.transport import Event, Sink
from routing.dispatch.attempt import Attempt


class Gate:
    """The `Sink` of one of two rivals: its first token decides."""

    __slots__ = ("_attempt", "_sink", "_won")

    def __init__(self, attempt: Attempt, sink: Sink, won: Callable[[Attempt], None]) -> None:
        """`won` is called before the token goes on to `sink`; the trip must put further ones there by itself."""
        self._attempt = attempt
        self._sink = sink
        self._won = won

    def put(self, event: Event) -> None:
        """The first token."""
        self._won(self._attempt)
        self._sink.put(event)


def race(one: Attempt, other: Attempt, won: Callable[[Attempt], None]) -> None:
    """Make them rivals until `settle`."""
    for attempt, rival in ((one, other), (other, one)):
        attempt.rival = rival
        if attempt.leg is not None:
            attempt.leg.sink = Gate(attempt, attempt.sink, won)


def settle(attempt: Attempt) -> Attempt | None:
    """The trip goes on alone; its rival, which is to be closed, if it had one."""
    rival, attempt.rival = attempt.rival, None
    if rival is not None:
        rival.rival = None
        for each in (attempt, rival):
            if each.leg is not None:
                each.leg.sink = each.sink
    return rival
