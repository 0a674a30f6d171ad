"""An approximate prefix tree: which replicas were sent which prefixes, without reports of engines."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

#: SMG's default bound of 2**26 characters, at 4 characters a token and 32 tokens a block.
MOST_BLOCKS: Final = 2**26 // 4 // 32


class PromptTree:
    """A tree of prefix hashes. A hash covers its whole prefix, so a mapping is enough.

    Beyond `most_blocks` the least recently sent are dropped, leaves before their roots.
    """

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        self._most = most_blocks
        self._holders: OrderedDict[int, tuple[str, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def insert(self, chain: Sequence[int], replica_id: str) -> None:
        """Insert a prompt that was sent to a replica."""
        holders = self._holders
        alone = (replica_id,)
        # Roots last, so that they are always more recent than their children.
        for prefix in reversed(chain):
            known = holders.get(prefix)
            if known is None:
                holders[prefix] = alone
            else:
                holders.move_to_end(prefix)
                if replica_id not in known:
                    holders[prefix] = (*known, replica_id)
        while len(holders) > self._most:
            holders.popitem(last=False)

    def forget(self, replica_id: str) -> None:
        """Drop a replica. Scans every block, which takes 0.1 s for a full tree."""
        for prefix, known in list(self._holders.items()):
            if replica_id in known:
                left = tuple(holder for holder in known if holder != replica_id)
                if left:
                    self._holders[prefix] = left
                else:
                    del self._holders[prefix]

    def match(self, chain: Sequence[int]) -> tuple[int, tuple[str, ...]]:
        """Return the number of leading blocks that some replica was sent, and the replicas that were sent all."""
        holders = self._holders
        low, high = 0, len(chain)
        while low < high:  # a known prefix has known prefixes
            middle = (low + high) // 2
            if chain[middle] in holders:
                low = middle + 1
            else:
                high = middle
        return low, holders[chain[low - 1]] if low else ()
