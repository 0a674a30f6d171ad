"""The paged KV cache of one replica, as pure bookkeeping: blocks, prefix reuse, eviction and events.

It follows TensorRT-LLM's block manager: full blocks become reusable under a chained hash, stay while a sequence holds
them, and are evicted least recently used first once none does. It has no clock and no text, and the cost of a token is
constant: hashing happens once per full block.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b

from protos.types import KvCreated, KvEvent, KvRemoved, KvStored

TOKENS_PER_BLOCK = 32
#: Most blocks that are handled in one go where many change hands: a few milliseconds of an event loop.
PIECE_BLOCKS = 256
_HASH_BYTES = 8


def extend_chain(chain: list[int], ids: Sequence[int], tokens_per_block: int, salt: str = "") -> None:
    """Append to `chain` the 64-bit hashes of the full blocks of `ids` that it does not cover yet.

    Each hash covers its parent's hash and its own tokens, so equal hashes mean equal prefixes; `salt` enters at the
    root and separates callers that must not share. The same in every process, unlike Python's own hash.
    """
    start, full = len(chain), len(ids) // tokens_per_block
    if start >= full:
        return
    if chain:
        parent = chain[-1].to_bytes(_HASH_BYTES, "little")
    else:
        parent = blake2b(salt.encode(), digest_size=_HASH_BYTES).digest() if salt else bytes(_HASH_BYTES)
    fresh = ids[start * tokens_per_block : full * tokens_per_block]
    packed = struct.pack(f"<{len(fresh)}I", *fresh)
    width = 4 * tokens_per_block
    for at in range(0, len(packed), width):
        parent = blake2b(parent + packed[at : at + width], digest_size=_HASH_BYTES).digest()
        chain.append(int.from_bytes(parent, "little"))


@dataclass(slots=True)
class BlockTable:
    """The blocks of one sequence: a reusable prefix by hash, then blocks that only it uses."""

    shared: list[int] = field(default_factory=list)
    private: int = 0

    def __len__(self) -> int:
        return len(self.shared) + self.private


class KvCache:
    """A pool of blocks. A sequence that holds a block holds its whole prefix, hence parents outlive children."""

    def __init__(self, blocks_total: int, tokens_per_block: int = TOKENS_PER_BLOCK) -> None:
        if blocks_total < 1 or tokens_per_block < 1:
            raise ValueError("a cache needs at least one block of at least one token")
        self.blocks_total = blocks_total
        self.tokens_per_block = tokens_per_block
        self._free = blocks_total
        self._references: dict[int, int] = {}  # of every reusable block; 0: idle
        self._idle: OrderedDict[int, None] = OrderedDict()  # least recently released first
        self._events: list[KvEvent] = []
        self._next_event_id = 0
        self._note(KvCreated((blocks_total, 0)))

    @property
    def available(self) -> int:
        """Number of blocks that a sequence could get now: never used, freed, or idle and so evictable."""
        return self._free + len(self._idle)

    @property
    def used(self) -> int:
        """Number of blocks that sequences hold; idle reusable ones do not count, as in the engine's own statistics."""
        return self.blocks_total - self.available

    @property
    def reusable(self) -> frozenset[int]:
        """Hashes of all blocks that a new request could reuse."""
        return frozenset(self._references)

    def blocks_for(self, tokens: int) -> int:
        """Return the number of blocks for this many tokens."""
        return -(-tokens // self.tokens_per_block)

    def match(self, chain: Sequence[int], limit: int) -> tuple[int, int]:
        """Return how many leading blocks of `chain`, at most `limit`, are reusable, and how many of those are idle."""
        references = self._references
        matched = idle = 0
        for block in chain[:limit]:
            held = references.get(block)
            if held is None:
                break
            matched += 1
            idle += not held
        return matched, idle

    def open(self, prefix: Sequence[int]) -> BlockTable:
        """Make a table that holds these reusable blocks, which `match` has just found."""
        for block in prefix:
            self._hold(block)
        return BlockTable(shared=list(prefix))

    def grow(self, table: BlockTable, blocks: int) -> bool:
        """Add blocks to the table, evicting idle ones as needed; False: there are not enough, and nothing changes."""
        if blocks > self.available:
            return False
        self._evict(blocks - self._free)
        self._free -= blocks
        table.private += blocks
        return True

    def store(self, table: BlockTable, chain: Sequence[int], ids: Sequence[int], salt: str = "") -> None:
        """Make the table's blocks reusable as far as `chain` reaches; `ids` are the tokens from the root on.

        `salt` is the chain's. A block that another sequence stored meanwhile replaces the table's own copy, which is
        freed.
        """
        start = len(table.shared)
        stored: list[tuple[int, tuple[int, ...]]] = []
        parent = chain[start - 1] if start else None
        size, references = self.tokens_per_block, self._references
        fresh = chain[start : len(table)]
        table.private -= len(fresh)
        table.shared += fresh
        for i, block in enumerate(fresh, start):
            if block in references:
                self._free += 1
                self._hold(block)
                parent = block
            else:
                references[block] = 1
                stored.append((block, tuple(ids[i * size : (i + 1) * size]) if ids else ()))
        if stored:
            self._note(KvStored(parent, tuple(stored), salt if parent is None else ""))

    def release(self, table: BlockTable) -> None:
        """Release all blocks, the tail first, so that eviction takes children before their parents."""
        references, idle = self._references, self._idle
        for block in reversed(table.shared):
            left = references[block] - 1
            references[block] = left
            if not left:
                idle[block] = None
        self._free += table.private
        table.shared = []
        table.private = 0

    def resize(self, blocks_total: int) -> bool:
        """Have this many blocks from now on, evicting idle ones; False: too many are held, and nothing changes."""
        fewer = self.blocks_total - blocks_total
        if fewer > self.available:
            return False
        self._evict(fewer - self._free)
        self._free -= fewer
        self.blocks_total = blocks_total
        self._note(KvCreated((blocks_total, 0)))
        return True

    def keep_only(self, kept: Set[int]) -> None:
        """Evict all idle blocks but these, which have their parents among them."""
        removed = [block for block in self._idle if block not in kept]
        self._idle = OrderedDict.fromkeys(block for block in self._idle if block in kept)
        for block in removed:
            del self._references[block]
        self._free += len(removed)
        for at in range(0, len(removed), PIECE_BLOCKS):
            self._note(KvRemoved(tuple(removed[at : at + PIECE_BLOCKS])))

    def adopt(self, blocks: Iterable[KvStored]) -> None:
        """Make blocks reusable that another cache held, parents before children, as long as there is free memory.

        Where blocks come one call after the other, those of earlier calls, and all idle ones, are evicted after them.
        """
        adopted: list[int] = []
        for run in blocks:
            parent = run.parent_hash
            fresh: list[tuple[int, tuple[int, ...]]] = []
            for block, ids in run.blocks:
                if block in self._references:
                    if fresh:
                        break
                    parent = block
                elif self._free and (parent is None or fresh or parent in self._references):
                    self._free -= 1
                    self._references[block] = 0
                    fresh.append((block, ids))
                else:
                    break
            if fresh:
                self._note(KvStored(parent, tuple(fresh), run.salt if parent is None else ""))
                adopted += [block for block, _ in fresh]
        for block in adopted:  # children are evicted first
            self._idle[block] = None
            self._idle.move_to_end(block, last=False)

    def drain_events(self) -> list[KvEvent]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def _hold(self, block: int) -> None:
        if not self._references[block]:
            del self._idle[block]
        self._references[block] += 1

    def _evict(self, blocks: int) -> None:
        if blocks <= 0:
            return
        removed = [self._idle.popitem(last=False)[0] for _ in range(blocks)]
        for block in removed:
            del self._references[block]
        self._free += blocks
        self._note(KvRemoved(tuple(removed)))

    def _note(self, data: KvCreated | KvStored | KvRemoved) -> None:
        self._events.append(KvEvent(self._next_event_id, data))
        self._next_event_id += 1
