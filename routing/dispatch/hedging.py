"""Two attempts at one request where the first is slow to answer: whichever says something first goes on alone."""

from collections.abc import Callable

from routing.contracts.transport import Event, Sink
from routing.dispatch.attempt import Trip


class Gate:
    """The `Sink` of one of two rivals: its first token decides."""

    __slots__ = ("_sink", "_trip", "_won")

    def __init__(self, trip: Trip, sink: Sink, won: Callable[[Trip], None]) -> None:
        """`won` is called before the token goes on to `sink`; the trip must put further ones there by itself."""
        self._trip = trip
        self._sink = sink
        self._won = won

    def put(self, event: Event) -> None:
        """The first token."""
        self._won(self._trip)
        self._sink.put(event)


def race(one: Trip, other: Trip, won: Callable[[Trip], None]) -> None:
    """Make them rivals until `settle`."""
    for trip, rival in ((one, other), (other, one)):
        trip.rival = rival
        if trip.leg is not None:
            trip.leg.sink = Gate(trip, trip.sink, won)


def settle(trip: Trip) -> Trip | None:
    """The trip goes on alone; its rival, which is to be closed, if it had one."""
    rival, trip.rival = trip.rival, None
    if rival is not None:
        rival.rival = None
        for each in (trip, rival):
            if each.leg is not None:
                each.leg.sink = each.sink
    return rival
