"""Predictions: a prompt just sent to a replica counts as cached there for a short while, so that siblings follow it.

The engine's own events take over once it has computed the prompt. Blocks that it never stores expire.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from routing.prefix.prefix_index import PrefixIndex

#: Seconds for which a sent prompt counts as cached: it may have to wait before it is computed.
PREDICTED_SECONDS = 5.0
#: A prompt's first blocks are noted and then every eighth: this runs for every request, and a prediction need not be
#: exact to a block.
_STRIDE = 8
#: Bound on noted blocks over all replicas; beyond, the oldest prompts expire early.
MAX_PREDICTED_BLOCKS = 65_536
#: Blocks that one call drops, roughly: a tenth of a millisecond.
_AT_ONCE = 512


class _Expected:
    """The blocks that one replica is expected to hold, each with the last prompt that has it."""

    def __init__(self, holder: int) -> None:
        self.holder = holder
        self.blocks: dict[int, int] = {}


class _Route(msgspec.Struct):
    """A prompt that was sent, with its noted blocks."""

    expires: float
    replica: _Expected
    serial: int
    noted: Sequence[int]


class Predictions:
    """Prompts that were just sent to replicas, by the hashes of their blocks."""

    def __init__(self) -> None:
        self._index = PrefixIndex(MAX_PREDICTED_BLOCKS)
        self._replicas: dict[str, _Expected] = {}
        #: The oldest first.
        self.routes: deque[_Route] = deque()
        self._serial = 0
        self._blocks = 0  # of all routes

    def add(self, replica_id: str, chain: Sequence[int], now: float) -> None:
        """Note that a prompt with these blocks was sent to the replica."""
        replica = self._replicas.get(replica_id)
        if replica is None:
            replica = self._replicas[replica_id] = _Expected(self._index.add(replica_id))
        noted = _noted(chain)
        self._serial += 1
        replica.blocks.update(dict.fromkeys(noted, self._serial))
        self._index.store(replica.holder, noted)
        self.routes.append(_Route(now + PREDICTED_SECONDS, replica, self._serial, noted))
        self._blocks += len(noted)
        while self._blocks > MAX_PREDICTED_BLOCKS:
            self._forget_oldest()

    def match(self, chain: Sequence[int]) -> list[tuple[int, tuple[str, ...]]]:
        """Return the holders of leading blocks, as PrefixIndex.match."""
        if len(chain) <= _STRIDE:
            return self._index.match(chain)
        return [
            (count if count < _STRIDE else (count - _STRIDE + 1) * _STRIDE, names)
            for count, names in self._index.match(_noted(chain))
        ]

    def removed(self, replica_id: str, hashes: Iterable[int]) -> None:
        """Drop blocks that the replica has reported as removed."""
        replica = self._replicas.get(replica_id)
        if replica is not None:
            gone = replica.blocks.keys() & hashes
            for name in gone:
                del replica.blocks[name]
            self._index.remove(replica.holder, gone)

    def left(self, replica_id: str) -> None:
        """Drop all predictions for a replica."""
        replica = self._replicas.pop(replica_id, None)
        if replica is not None:
            self._index.drop(replica.holder)
            replica.blocks = {}

    def expire(self, now: float) -> None:
        """Drop expired prompts: all at once if nothing was sent since, else a few with every call."""
        routes = self.routes
        if not routes or routes[0].expires > now:
            return
        if routes[-1].expires <= now:
            for replica_id in list(self._replicas):
                self.left(replica_id)
            routes.clear()
            self._blocks = 0
            return
        enough = self._blocks - _AT_ONCE
        while routes[0].expires <= now and self._blocks > enough:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        route = self.routes.popleft()
        self._blocks -= len(route.noted)
        blocks = route.replica.blocks
        gone = [name for name in route.noted if blocks.get(name) == route.serial]
        for name in gone:
            del blocks[name]
        # The replica has left: nothing is to be removed, and its holder bit may be another's by now.
        if gone:
            self._index.remove(route.replica.holder, gone)


def _noted(chain: Sequence[int]) -> Sequence[int]:
    """Return the blocks 1 to 8, 16, 24 and so on, counted from 1."""
    return chain if len(chain) <= _STRIDE else [*chain[: _STRIDE - 1], *chain[_STRIDE - 1 :: _STRIDE]]
