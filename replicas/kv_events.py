"""Follows a replica's reusable KV blocks by its engine's events and sends updates to subscribed workers.

Engines have block hashes of their own; here they get those that a gateway can compute from a prompt
(protos/prefix_hash.py). TensorRT-LLM cannot be asked what its cache holds, so a loss of events clears all that was
known, and blocks become known again as they are stored anew.
"""

import logging
from collections.abc import Iterable
from itertools import takewhile

from protos.prefix_hash import prefix_hashes, root_of
from protos.types import KvCreated, KvEvent, KvStored, KvUpdate

log = logging.getLogger(__name__)

#: Most hashes of one update: 32 kB on the wire, and about a millisecond of a worker's time.
MAX_UPDATE_HASHES = 4096
#: Most changes buffered for a worker that does not read; beyond, it gets a new snapshot once it does.
MAX_PENDING_HASHES = 65536


class KvLedger:
    """The reusable blocks of one engine by prefix hash, and the feeds that follow them.

    Two blocks of the engine may have one prefix hash, which is removed with the last of them. There are never more
    blocks than the engine's stated capacity.
    """

    def __init__(self, block_tokens: int, blocks_total: int) -> None:
        #: Whether the engine has sent events; without, nothing is known and nothing is sent.
        self.has_events = False
        #: Prefix hash -> number of the engine's blocks that have it; never 0.
        self.held: dict[int, int] = {}
        self._block_tokens = block_tokens
        self._most = blocks_total
        self._names: dict[int, int] = {}  # the engine's hash -> prefix hash
        self._next_event_id = 0
        self._feeds: set[KvFeed] = set()

    def subscribe(self) -> "KvFeed":
        """Return a feed of all blocks held now and of later changes, until `unsubscribe`."""
        feed = KvFeed(self)
        self._feeds.add(feed)
        return feed

    def unsubscribe(self, feed: "KvFeed") -> None:
        """Stop a feed."""
        self._feeds.discard(feed)

    def take(self, events: Iterable[KvEvent]) -> None:
        """Apply the engine's events in order."""
        touched: set[int] = set()
        for event in events:
            if self.has_events and event.event_id != self._next_event_id:
                log.warning("KV event %d came in place of %d: all is void", event.event_id, self._next_event_id)
                self._forget_all()
                touched.clear()
            self.has_events = True
            self._next_event_id = event.event_id + 1
            data = event.data
            if isinstance(data, KvStored):
                self._store(data, touched)
            elif isinstance(data, KvCreated):
                self._most = max(self._most, sum(data.blocks_per_cache_level))
            else:
                for block in data.block_hashes:
                    self._remove(block, touched)
        if touched:
            for feed in self._feeds:
                feed.touch(touched)

    def _store(self, data: KvStored, touched: set[int]) -> None:
        names, held = self._names, self.held
        parent = root_of(data.salt) if data.parent_hash is None else names.get(data.parent_hash)
        if parent is None:
            return  # the parent is unknown, so the prefix hash is too
        size = self._block_tokens
        full = list(takewhile(lambda block: len(block[1]) == size, data.blocks))
        chain = prefix_hashes([token for _, ids in full for token in ids], size, parent)
        for (block, _), name in zip(full, chain, strict=True):
            if names.get(block) != name:
                self._remove(block, touched)
                if len(names) >= self._most:
                    return
                names[block] = name
                held[name] = held.get(name, 0) + 1
                touched.add(name)

    def _remove(self, block: int, touched: set[int]) -> None:
        name = self._names.pop(block, None)
        if name is None:
            return
        left = self.held[name] - 1
        if left:
            self.held[name] = left
        else:
            del self.held[name]
            touched.add(name)

    def _forget_all(self) -> None:
        self._names.clear()
        self.held.clear()
        for feed in self._feeds:
            feed.restart()


class KvFeed:
    """Pending updates for one worker: first a snapshot in parts, then changes.

    It notes only which hashes changed, and reads the ledger when an update is made: so an update has the net effect,
    however often a block changed, and a repeated update does no harm.
    """

    def __init__(self, ledger: KvLedger) -> None:
        self._ledger = ledger
        self._restart = True
        self._snapshot: list[int] = []  # still to be sent, the next ones last
        self._touched: set[int] = set()
        self._update_id = 0

    def __bool__(self) -> bool:
        return self._ledger.has_events and (self._restart or bool(self._snapshot) or bool(self._touched))

    def touch(self, hashes: set[int]) -> None:
        """Note that these hashes were stored or removed."""
        if self._restart:
            return
        self._touched |= hashes
        if len(self._touched) > MAX_PENDING_HASHES:
            self.restart()

    def restart(self) -> None:
        """Start over with a new snapshot."""
        self._restart = True
        self._snapshot = []
        self._touched = set()

    def take(self) -> KvUpdate | None:
        """Return the next update, of at most MAX_UPDATE_HASHES; None: nothing is pending."""
        if not self:
            return None
        held, reset = self._ledger.held, self._restart
        if reset:
            self._restart = False
            self._snapshot = list(held)
            self._snapshot.reverse()
        if self._snapshot or reset:
            hashes = self._snapshot[: -MAX_UPDATE_HASHES - 1 : -1]
            del self._snapshot[-MAX_UPDATE_HASHES:]
            stored, removed = [name for name in hashes if name in held], []
        else:
            touched = self._touched
            if len(touched) <= MAX_UPDATE_HASHES:
                self._touched = set()
            else:
                touched = {touched.pop() for _ in range(MAX_UPDATE_HASHES)}
            stored = [name for name in touched if name in held]
            removed = [name for name in touched if name not in held]
        self._update_id += 1
        return KvUpdate(self._update_id, reset, stored, removed)
