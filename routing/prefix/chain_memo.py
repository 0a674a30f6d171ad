"""A memo of block hashes: of a long prompt only what follows a known prefix is hashed block by block."""

import secrets
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_128_digest

from protos.packed_ids import PackedIds
from protos.prefix_hash import TOKEN_BYTES, hashes_of_packed

#: Blocks that are remembered together.
GROUP_BLOCKS: Final = 64
#: Bound on remembered groups: 4 MB, the hashes of 16 million tokens in blocks of 64.
MAX_GROUPS: Final = 4096


class ChainMemo:
    """The hashes of groups of blocks, by a digest of the group's tokens and the hash of the block before.

    The hash before a group stands for all tokens before it and for the salt, so with another salt nothing is found.
    """

    def __init__(self, max_groups: int = MAX_GROUPS) -> None:
        self._max_groups = max_groups
        self._seed = secrets.randbits(64)
        #: The least recently used first.
        self._groups: OrderedDict[tuple[bytes, int, int], array[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._groups)

    def hashes(self, ids: Sequence[int], block_tokens: int, root: int) -> list[int]:
        """Return what `prefix_hashes` returns."""
        packed = ids.packed if isinstance(ids, PackedIds) else array("I", ids).tobytes()
        view, width = memoryview(packed), GROUP_BLOCKS * block_tokens * TOKEN_BYTES
        groups, parent, start = self._groups, root, 0
        chain: list[int] = []
        for start in range(width, len(view) + 1, width):
            group = view[start - width : start]
            key = (xxh3_128_digest(group, self._seed), parent, block_tokens)
            known = groups.get(key)
            if known is None:
                known = groups[key] = array("Q", hashes_of_packed(group, block_tokens, parent))
                if len(groups) > self._max_groups:
                    groups.popitem(last=False)
            else:
                groups.move_to_end(key)
            chain += known
            parent = known[-1]
        return chain + hashes_of_packed(view[start:], block_tokens, parent)
