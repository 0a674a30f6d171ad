"""The host groups of a fleet's replicas, and the requests that wait for their next membership."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from protos.reshape import Span
from routing.transports.replica_connection import ReplicaConnection

#: Seconds that what lost its replica waits for further members of a group once it could go on: these beat twice a
#: second, so that they notice a loss at most half a second apart.
SPREAD_SECONDS: Final = 0.6


def held_by_widths(connections: Iterable[ReplicaConnection], launched: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Return the KV tokens that the narrowest and the widest shape hold which replicas can take.

    Where no replica that can be reached changes its shape, they are `launched`.
    """
    members = [c.membership for c in connections if c.membership is not None and c.connected]
    held = [width.kv_tokens for membership in members for width in membership.widths]
    return (min(held), max(held)) if held else launched


def with_epoch(connections: Iterable[ReplicaConnection], epoch: int) -> ReplicaConnection | None:
    """Return the replica with an epoch that can be reached; None where there is none."""
    return next((c for c in connections if epoch and c.epoch == epoch and c.connected), None)


def awaits_member(connections: Iterable[ReplicaConnection]) -> bool:
    """Whether a parked replica can be reached: once it loses the wider one, it serves its own GPU again."""
    return any(c.parked and c.connected for c in connections)


class Awaited:
    """Calls that wait for the next change of a fleet; where several replicas return together, for the last of these."""

    def __init__(self, connections: Mapping[str, ReplicaConnection]) -> None:
        self._connections = connections
        self._waiting: dict[asyncio.TimerHandle, Callable[[], None]] = {}
        self._spread: asyncio.TimerHandle | None = None

    def add(self, call: Callable[[], None], seconds: float) -> None:
        """Call once: with the next change, or after so many seconds where there is none."""

        def late() -> None:
            if self._waiting.pop(timer, None) is not None:
                call()

        timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), late)
        self._waiting[timer] = call

    def returning(self, lost: str) -> bool:
        """Whether members of a lost replica's group are about to serve: they are parked, and nobody has their GPUs."""
        connection = self._connections.get(lost)
        membership = None if connection is None else connection.membership
        return membership is not None and membership.group in self._returning()

    def changed(self, *, serves: bool) -> None:
        """Make the calls; where some replica `serves` and more are about to, give these a little time."""
        if not self._waiting:
            return
        if not self._returning():
            self._call()
        elif serves and self._spread is None:
            self._spread = asyncio.get_running_loop().call_later(SPREAD_SECONDS, self._call)

    def _call(self) -> None:
        if self._spread is not None:
            self._spread.cancel()
            self._spread = None
        waiting, self._waiting = self._waiting, {}
        for timer, call in waiting.items():
            timer.cancel()
            call()

    def _returning(self) -> set[str]:
        """Return the groups with members that are parked, and whose server is gone or serves their GPUs no more."""
        found, connections = set(), self._connections.values()
        for connection in connections:
            membership = connection.membership
            if membership is not None and connection.parked and connection.connected:
                server = with_epoch(connections, membership.served_by)
                there = None if server is None else server.membership
                if there is None or not there.span.covers(Span(membership.gpu, 1)):
                    found.add(membership.group)
        return found
