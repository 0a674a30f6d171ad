"""The host groups of a fleet's replicas, and the requests that wait for their next membership."""

import asyncio
from collections.abc import Callable, Iterable

from routing.transports.replica_connection import ReplicaConnection


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
    """Calls that wait for the next change of a fleet."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def add(self, call: Callable[[], None], seconds: float) -> None:
        """Call once: with the next change, or after so many seconds where there is none."""

        def late() -> None:
            if self._waiting.pop(timer, None) is not None:
                call()

        timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), late)
        self._waiting[timer] = call

    def changed(self) -> None:
        """Make the calls."""
        waiting, self._waiting = self._waiting, {}
        for timer, call in waiting.items():
            timer.cancel()
            call()
