"""An LRU of the blocks last sent to a replica: what it probably holds where its engine sends no KV updates."""

from collections.abc import Sequence
from itertools import islice

#: An eviction drops the bound divided by this.
_EVICTED_PART = 16


class RecentBlocks:
    """Prefix hashes in the order of their last use, at most `most`; children are evicted before their parents.

    A bound that is lowered holds from the next use on.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._blocks: dict[int, None] = {}  # the least recently used first

    def use(self, chain: Sequence[int]) -> list[int]:
        """Note that a prompt with these blocks was sent; return the blocks that are evicted for it."""
        blocks = self._blocks
        for name in reversed(chain):
            blocks.pop(name, None)
            blocks[name] = None
        over = len(blocks) - self.most
        if over <= 0:
            return []
        gone = list(islice(blocks, over + self.most // _EVICTED_PART))
        for name in gone:
            del blocks[name]
        return gone
