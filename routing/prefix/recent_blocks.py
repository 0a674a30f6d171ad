"""What a replica probably holds, where its engine does not say: what was sent to it last, as much as its cache has."""

from collections.abc import Sequence
from itertools import islice

#: Of the bound, how much is given up at a time.
_EVICTED_PART = 16


class RecentBlocks:
    """Prefix hashes in the order of their last use, at most `most`; children go before their parents."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._blocks: dict[int, None] = {}  # the least recently used first

    def use(self, chain: Sequence[int]) -> list[int]:
        """Note that a prompt with these blocks was sent; those that are given up for it."""
        blocks = self._blocks
        for name in reversed(chain):
            blocks.pop(name, None)
            blocks[name] = None
        over = len(blocks) - self._most
        if over <= 0:
            return []
        gone = list(islice(blocks, over + self._most // _EVICTED_PART))
        for name in gone:
            del blocks[name]
        return gone
