"""The prefix index: a dict from prefix hash to a bit mask of the holders of that KV block.

With millions of blocks and hundreds of replicas in one event loop, no call may take longer than its own input needs: a
holder is dropped by retiring its bit, which later calls sweep out of the masks bit by bit, and the dict is cut into
shards, since a dict of millions blocks the loop for a second when it grows.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

MAX_SHARDS = 1024
_SHARD_BLOCKS = 1024
#: Mask bit: the block was matched since it was last examined for eviction. The other bits are holders.
_MATCHED = 1
#: Blocks examined for retired bits in one call: less than a millisecond.
SWEEP_BLOCKS = 2048
#: An eviction examines a shard's size divided by this.
_EVICTED_PART = 8
#: Matches set the mark once the index is this full: before, it would only cost time.
_MARKED_FROM = 0.75
#: Bounds of two tables that only save memory and time; beyond, they are cleared.
_MAX_MASKS = 65536
_MAX_NAMED = 4096


class PrefixIndex:
    """At most `max_blocks` blocks, each with its holders. A holder is a bit with a name.

    A holder of a block is assumed to hold its whole prefix, as engines evict children before their parents; so the end
    of a match is found by bisection.

    Beyond the bound a shard evicts the older part of its blocks, except those that were matched since the last
    examination (CLOCK's second chance). Plain age would not do: a system prompt that all share is the oldest of all,
    and as no engine stores it again it would never come back. Half of the examined blocks are evicted in any case, so
    that adding a block costs at most two examinations of others.
    """

    def __init__(self, max_blocks: int) -> None:
        if max_blocks < 1:
            raise ValueError("an index needs room for a block")
        self._most = max_blocks
        self._marked_from = int(_MARKED_FROM * max_blocks)
        self._size = 0
        shards = min(MAX_SHARDS, 1 << (max_blocks // _SHARD_BLOCKS).bit_length())
        self._low = shards - 1
        self._shards: list[dict[int, int]] = [{} for _ in range(shards)]
        self._names: dict[int, str] = {}  # of the holders in use
        self._alive = 0  # their bits
        self._free: set[int] = set()
        self._next = _MATCHED << 1
        self._retired = 0  # bits that await the next sweep
        self._dead = 0  # bits that are being swept out
        self._swept = 0  # shards that are done
        self._matches = 0  # for marks
        self._masks: dict[int, int] = {}  # equal masks are one object
        self._named: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        """Number of blocks, with those of dropped holders that no sweep has reached."""
        return self._size

    def add(self, name: str) -> int:
        """Add a holder without blocks; return its bit."""
        if self._free:
            holder = min(self._free)
            self._free.discard(holder)
        else:
            holder, self._next = self._next, self._next << 1
        self._names[holder] = name
        self._alive |= holder
        self._named = {}
        return holder

    def drop(self, holder: int) -> None:
        """Drop the holder and all its blocks at once."""
        del self._names[holder]
        self._alive ^= holder
        self._retired |= holder
        self._named = {}

    def store(self, holder: int, hashes: Iterable[int]) -> None:
        """Add blocks to a holder."""
        if self._dead or self._retired:
            self._sweep()
        shards, low, masks = self._shards, self._low, self._shared_masks()
        for name in hashes:
            shard = shards[name & low]
            mask = shard.get(name)
            if mask is None:
                if self._size >= self._most:
                    self._evict(shard)
                shard[name] = holder
                self._size += 1
            elif not mask & holder:
                mask |= holder
                shard[name] = masks.setdefault(mask, mask)

    def remove(self, holder: int, hashes: Iterable[int]) -> None:
        """Remove blocks from a holder."""
        if self._dead or self._retired:
            self._sweep()
        shards, low, masks = self._shards, self._low, self._shared_masks()
        left = self._alive & ~holder
        for name in hashes:
            shard = shards[name & low]
            mask = shard.get(name, 0)
            if mask & holder:
                if mask & left:
                    mask ^= holder
                    shard[name] = masks.setdefault(mask, mask)
                else:
                    del shard[name]
                    self._size -= 1

    def holds(self, holder: int, name: int) -> bool:
        """Whether the holder has the block of hash `name`."""
        return bool(self._shards[name & self._low].get(name, 0) & holder)

    def match(self, chain: Sequence[int]) -> list[tuple[int, tuple[str, ...]]]:
        """Return (number of leading blocks, at least 1; their holders' names), the fewest first."""
        if not chain:
            return []
        shards, shard_of = self._shards, self._low
        name = chain[0]
        held = shards[name & shard_of].get(name, 0) & self._alive
        if not held:
            return []
        name = chain[-1]
        holders = shards[name & shard_of].get(name, 0)
        # Nearly always a prompt is new, or those that hold its beginning hold all of it.
        if holders & held == held:
            groups = [(len(chain), self._named.get(held) or self._names_of(held))]
        else:
            groups = self._bisected(chain, held, holders)
        if self._size > self._marked_from:
            self._mark(chain[: groups[-1][0]])
        return groups

    def _bisected(self, chain: Sequence[int], held: int, last: int) -> list[tuple[int, tuple[str, ...]]]:
        """Return what `match` does; `held` are the holders of the first block, `last` those of the last."""
        shards, shard_of, low = self._shards, self._low, 0
        groups: list[tuple[int, tuple[str, ...]]] = []
        # Blocks after `low` with their holders, the nearest last; where both ends agree, so do all in between.
        ahead = [(len(chain) - 1, last)]
        while ahead and held:
            high, holders = ahead[-1]
            holders &= held
            if holders == held:
                low = high
                ahead.pop()
            elif high - low <= 1:
                groups.append((high, self._names_of(held ^ holders)))
                low, held = high, holders
                ahead.pop()
            else:
                middle = (low + high) // 2
                name = chain[middle]
                ahead.append((middle, shards[name & shard_of].get(name, 0)))
        if held:
            groups.append((len(chain), self._names_of(held)))
        return groups

    def _names_of(self, mask: int) -> tuple[str, ...]:
        names = self._named.get(mask)
        if names is None:
            if len(self._named) >= _MAX_NAMED:
                self._named = {}
            names = tuple(self._names[bit] for bit in _bits(mask))
            self._named[mask] = names
        return names

    def _mark(self, hashes: Sequence[int]) -> None:
        # A chain's blocks get their marks together and lose them one by one: to check one of them per match, in turn,
        # is enough to restore the marks of a chain that is matched often.
        self._matches += 1
        name = hashes[self._matches % len(hashes)]
        if self._shards[name & self._low].get(name, _MATCHED) & _MATCHED:
            return
        masks = self._shared_masks()
        for name in hashes:
            shard = self._shards[name & self._low]
            mask = shard.get(name, _MATCHED)
            if not mask & _MATCHED:
                mask |= _MATCHED
                shard[name] = masks.setdefault(mask, mask)

    def _evict(self, shard: dict[int, int]) -> None:
        """Make room for at least one block; see the class."""
        if not shard:  # only if the hashes are not uniform; the bound holds all the same
            shard = max(self._shards, key=len)
        oldest = list(islice(shard, -(-len(shard) // _EVICTED_PART)))
        kept, most = 0, len(oldest) // 2
        for name in oldest:
            mask = shard.pop(name)
            if mask & _MATCHED and kept < most:
                kept += 1
                shard[name] = mask ^ _MATCHED
        self._size -= len(oldest) - kept

    def _shared_masks(self) -> dict[int, int]:
        if len(self._masks) >= _MAX_MASKS:
            self._masks = {}
        return self._masks

    def _sweep(self) -> None:
        """Clear retired bits in some more blocks; bits cleared in all become free."""
        if not self._dead:
            if not self._retired:
                return
            self._dead, self._retired, self._swept = self._retired, 0, 0
        dead, looked_at = self._dead, 0
        while self._swept < len(self._shards) and looked_at < SWEEP_BLOCKS:
            shard = self._shards[self._swept]
            self._swept += 1
            looked_at += len(shard)
            for name, left in [(name, mask & ~dead) for name, mask in shard.items() if mask & dead]:
                if left & ~_MATCHED:
                    shard[name] = self._masks.setdefault(left, left)
                else:
                    del shard[name]
                    self._size -= 1
        if self._swept == len(self._shards):
            self._free.update(_bits(dead))
            self._dead = 0


def _bits(mask: int) -> Iterable[int]:
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
