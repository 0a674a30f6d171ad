"""The prefix directory of one model: how much of a prompt each replica holds in its KV cache."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from protos.packed_ids import PackedIds
from protos.prefix_hash import ROOT, prefix_hashes, root_of
from protos.types import KvUpdate
from routing.prefix.chain_memo import ChainMemo
from routing.prefix.predictions import Predictions
from routing.prefix.prefix_index import PrefixIndex
from routing.prefix.recent_blocks import RecentBlocks
from routing.prefix.trust import Trust

#: About 200 MB.
MAX_BLOCKS = 2_000_000
#: Most hashes of one update; replicas send a sixteenth of it.
MAX_UPDATE_HASHES = 65_536
#: Blocks that a replica may claim per block of GPU memory: a cache may have further levels.
MAX_CLAIM = 16
#: Bound on prompts whose hashes in further block sizes are remembered until they are routed.
_MAX_REMEMBERED = 1024


class Prefix(msgspec.Struct, frozen=True):
    """The hashes of a prompt's full blocks, and its tokens in the cache of each replica that holds any."""

    chain: Sequence[int]
    cached: Mapping[str, int]


_NOTHING: Final = Prefix((), {})


class Accuracy(msgspec.Struct, frozen=True):
    """Accuracy of one replica's predictions; see Trust. `exact`: they come from the engine's own events."""

    exact: bool
    requests: int
    predicted_tokens: float
    cached_tokens: float
    factor: float


class _Replica:
    """The state of one replica's cache."""

    def __init__(self, block_tokens: int, most: int, exact: bool, holder: int) -> None:
        self.block_tokens = block_tokens
        self.most = most  # blocks that its cache may have
        self.exact = exact
        self.holder = holder
        self.recent = RecentBlocks(most)
        self.trust = Trust()
        self.next_update = 1
        self.lost = False  # an update was missed or implausible: updates are ignored before the next reset
        self.claimed = 0  # blocks stored less removed; more than are held where one was stored twice


class PrefixDirectory:
    """Follows the KV updates of replicas; for replicas that send none, the prompts routed to them.

    Replicas may have blocks of different sizes. A prompt is hashed once for each size; the chain that callers see is
    that of the smallest one.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._max_blocks = max_blocks
        self._clock = clock
        self._index = PrefixIndex(max_blocks)
        self._predictions = Predictions()
        self._memo = ChainMemo()
        self._replicas: dict[str, _Replica] = {}
        self._sizes: list[int] = []  # of blocks, ascending
        self._doubted: dict[str, float] = {}  # factors below 1, by replica
        self._remembered: dict[int, dict[int, list[int]]] = {}  # last hash of a chain -> block size -> chain

    @property
    def blocks(self) -> int:
        """Number of known blocks, with those of replicas that have just left."""
        return len(self._index)

    def joined(self, replica_id: str, block_tokens: int, blocks_total: int, exact: bool) -> None:
        """Add a replica, of whose cache nothing is known yet.

        One that is not `exact` is assumed to hold what was routed to it, until it sends an update after all.
        """
        self.left(replica_id)
        if block_tokens > 0:
            most = max(1, min(blocks_total, self._max_blocks))
            self._replicas[replica_id] = _Replica(block_tokens, most, exact, self._index.add(replica_id))
            self._sizes = sorted({replica.block_tokens for replica in self._replicas.values()})

    def resized(self, replica_id: str, blocks_total: int) -> None:
        """Note that a replica's cache has another size now; what it holds stays until it says otherwise."""
        replica = self._replicas.get(replica_id)
        if replica is not None:
            replica.most = replica.recent.most = max(1, min(blocks_total, self._max_blocks))

    def emptied(self, replica_id: str) -> None:
        """Note that a replica holds nothing any more; its next update goes on from there."""
        replica = self._replicas.get(replica_id)
        if replica is not None:
            self._void(replica_id, replica)
            self._predictions.left(replica_id)

    def left(self, replica_id: str) -> None:
        """Drop a replica and its cache."""
        replica = self._replicas.pop(replica_id, None)
        if replica is not None:
            self._index.drop(replica.holder)
            self._predictions.left(replica_id)
            self._doubted.pop(replica_id, None)
            self._sizes = sorted({replica.block_tokens for replica in self._replicas.values()})

    def updated(self, replica_id: str, update: KvUpdate) -> bool:
        """Apply an update of a replica's cache. False: an update is missing or implausible, and a resync is needed."""
        replica = self._replicas.get(replica_id)
        if replica is None or (replica.lost and not update.reset):
            return True
        claimed = len(update.stored) - len(update.removed) + (0 if update.reset else replica.claimed)
        expected = update.reset or update.update_id == replica.next_update
        sane = len(update.stored) + len(update.removed) <= MAX_UPDATE_HASHES
        if not expected or not sane or claimed > MAX_CLAIM * replica.most + MAX_UPDATE_HASHES:
            # One resync only: a replica that answers implausibly again is not asked again.
            known_lost, replica.lost = replica.lost, True
            self._void(replica_id, replica)
            return known_lost
        if update.reset or not replica.exact:
            self._void(replica_id, replica)
            replica.exact, replica.lost = True, False
        replica.next_update = update.update_id + 1
        replica.claimed = max(0, claimed)
        self._index.store(replica.holder, update.stored)
        if update.removed:
            self._index.remove(replica.holder, update.removed)
            self._predictions.removed(replica_id, update.removed)
        return True

    def look_up(self, prompt_ids: Sequence[int], salt: str = "") -> Prefix:
        """Return each replica's cached tokens of a prompt, at most all but the last, which is always computed."""
        sizes = self._sizes
        if not sizes or len(prompt_ids) < sizes[0]:
            return _NOTHING
        root = root_of(salt) if salt else ROOT
        # Its `isinstance` is an abstract class's, a call in Python.
        hashes = self._memo.hashes if type(prompt_ids) is PackedIds else prefix_hashes
        chain = hashes(prompt_ids, sizes[0], root)
        if len(sizes) > 1:
            if len(self._remembered) >= _MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[chain[-1]] = {size: hashes(prompt_ids, size, root) for size in sizes[1:]}
        return Prefix(chain, self.match(chain, len(prompt_ids)))

    def match(self, chain: Sequence[int], prompt_tokens: int) -> dict[str, int]:
        """Return the cached tokens of a prompt with these block hashes by replica, without those that hold none."""
        sizes = self._sizes
        if not chain or not sizes or prompt_tokens <= 1:
            return {}
        cached: dict[str, int] = {}
        self._add_matches(cached, chain, sizes[0], prompt_tokens)
        if len(sizes) > 1:
            for size, other in self._remembered.get(chain[-1], {}).items():
                self._add_matches(cached, other, size, prompt_tokens)
        if self._doubted:
            for replica_id, factor in self._doubted.items():
                if replica_id in cached:
                    cached[replica_id] = max(1, int(cached[replica_id] * factor))
        return cached

    def routed(self, replica_id: str, chain: Sequence[int]) -> None:
        """Note a prompt sent to a replica, which will soon hold it."""
        replica = self._replicas.get(replica_id)
        if replica is None or not chain:
            return
        if len(self._sizes) > 1 and replica.block_tokens != self._sizes[0]:
            chain = self._remembered.get(chain[-1], {}).get(replica.block_tokens, ())
        if not replica.exact:
            gone = replica.recent.use(chain)
            self._index.store(replica.holder, chain)
            self._index.remove(replica.holder, gone)
        elif chain and not self._index.holds(replica.holder, chain[-1]):
            now = self._clock()
            self._predictions.expire(now)
            self._predictions.add(replica_id, chain, now)

    def record_cached(self, replica_id: str, predicted_tokens: int, cached_tokens: int) -> None:
        """Compare the tokens that `look_up` predicted with those that the replica found in its cache."""
        if not predicted_tokens and not cached_tokens:
            return
        replica = self._replicas.get(replica_id)
        if replica is not None and replica.trust.record(predicted_tokens, cached_tokens, self._clock()):
            if replica.trust.factor < 1:
                self._doubted[replica_id] = replica.trust.factor
            else:
                self._doubted.pop(replica_id, None)

    def accuracy(self) -> dict[str, Accuracy]:
        """Return the accuracy by replica, for metrics and operators."""
        return {
            replica_id: Accuracy(r.exact, r.trust.requests, r.trust.predicted, r.trust.cached, r.trust.factor)
            for replica_id, r in self._replicas.items()
        }

    def _void(self, replica_id: str, replica: _Replica) -> None:
        """Forget all that is known of the replica's cache."""
        self._index.drop(replica.holder)
        replica.holder = self._index.add(replica_id)
        replica.recent = RecentBlocks(replica.most)
        replica.claimed = 0

    def _add_matches(self, cached: dict[str, int], chain: Sequence[int], size: int, prompt_tokens: int) -> None:
        most, blocks = prompt_tokens - 1, 0
        names: tuple[str, ...] = ()
        for blocks, names in self._index.match(chain):
            tokens = blocks * size
            cached |= dict.fromkeys(names, tokens if tokens < most else most)
        predictions = self._predictions
        # Where all replicas hold all of it already, no prediction can say more.
        if not predictions.routes or (len(names) == len(self._replicas) and blocks == len(chain)):
            return
        predictions.expire(self._clock())
        for blocks, names in predictions.match(chain):
            tokens = min(blocks * size, most)
            for name in names:
                if cached.get(name, 0) < tokens:
                    cached[name] = tokens
