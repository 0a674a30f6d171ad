"""Relays an engine's KV cache events to subscribers of the stock service: numbered batches, history, snapshots.

A subscriber reads the bounded history from its position on, so that one that does not read costs nothing; where the
history no longer reaches back that far, it gets a snapshot of the reusable blocks and continues from there. Until the
first subscription only the number of batches is kept.
"""

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from protos.stock.stock_kv_codec import LiveBlock, encode_batch, encode_snapshot
from protos.types import KvCreated, KvEvent, KvStored

#: Bytes of encoded batches that are kept; about half a minute of a busy engine.
HISTORY_BYTES = 4 * 1024 * 1024
#: Blocks in one message of a snapshot: about 300 kB.
SNAPSHOT_BLOCKS = 2048


class KvRelay:
    """One engine's batches of events. It never keeps more blocks than the engine's stated capacity."""

    def __init__(self, blocks_total: int) -> None:
        #: Number of the last batch.
        self.sequence = 0
        self._most = blocks_total
        self._next_event_id: int | None = None
        self._unknown: int | None = None  # batches before the recording began; None: it has not begun
        self._live: dict[int, LiveBlock] = {}
        self._history: deque[bytes] = deque()  # the last batches
        self._bytes = 0
        self._subscriptions: set[KvSubscription] = set()

    def subscribe(self, start: int) -> "KvSubscription":
        """Subscribe to batches from number `start` on; if they are gone, or for 0, a snapshot comes first."""
        if self._unknown is None:
            self._unknown = self.sequence
        subscription = KvSubscription(self, start)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: "KvSubscription") -> None:
        """End a subscription."""
        self._subscriptions.discard(subscription)

    def take(self, events: Sequence[KvEvent]) -> None:
        """Apply the events of an engine step in order."""
        known, cleared = 0, False
        for position, event in enumerate(events):
            if self._next_event_id not in (None, event.event_id):
                known, cleared = position, True  # a gap clears what was before it
            self._next_event_id = event.event_id + 1
            if isinstance(event.data, KvCreated):
                self._most = max(self._most, sum(event.data.blocks_per_cache_level))
        told = [event for event in events[known:] if not isinstance(event.data, KvCreated)]
        if not told and not cleared:
            return
        self.sequence += 1
        if self._unknown is None:
            return
        if cleared:
            self._live.clear()
        for event in told:
            self._record(event)
        batch = encode_batch(self.sequence, time.time(), told, cleared=cleared)
        self._history.append(batch)
        self._bytes += len(batch)
        while self._bytes > HISTORY_BYTES:
            self._bytes -= len(self._history.popleft())
        for subscription in self._subscriptions:
            subscription.wake()

    def _record(self, event: KvEvent) -> None:
        data, live = event.data, self._live
        if isinstance(data, KvStored):
            parent = data.parent_hash
            for block_hash, token_ids in data.blocks:
                if len(live) < self._most or block_hash in live:
                    live[block_hash] = LiveBlock(block_hash, parent, array("I", token_ids).tobytes(), data.salt)
                parent = block_hash
        elif not isinstance(data, KvCreated):
            for block_hash in data.block_hashes:
                live.pop(block_hash, None)

    def since(self, sequence: int) -> list[bytes] | None:
        """Return the batches from `sequence` on; None: they are no longer kept or never were."""
        missed = self.sequence + 1 - sequence
        if not 0 <= missed <= len(self._history):
            return None
        return [self._history[i] for i in range(len(self._history) - missed, len(self._history))]

    def snapshot(self) -> Iterable[bytes]:
        """Yield all reusable blocks as messages whose numbers end with the last batch's; none before the first batch.

        Each message is made when it is taken, since all of a large cache would delay the engine's tokens.
        """
        if not self.sequence:
            return ()
        blocks, now = list(self._ordered()), time.time()
        # The messages reuse numbers of past batches, so there cannot be more of them than of those.
        count = min(self.sequence, max(1, -(-len(blocks) // SNAPSHOT_BLOCKS)))
        size = max(1, -(-len(blocks) // count))
        first, unknown = self.sequence - count + 1, self._unknown or 0

        def message(index: int) -> bytes:
            part = blocks[index * size : (index + 1) * size]
            return encode_snapshot(
                first + index, now, part, index=index, count=count, total=len(blocks), unknown=unknown
            )

        return map(message, range(count))

    def _ordered(self) -> Iterator[LiveBlock]:
        """Yield every live block after its parent, if that is live."""
        live, told = self._live, set[int]()
        for block in live.values():
            chain: list[LiveBlock] = []
            at: LiveBlock | None = block
            while at is not None and at.block_hash not in told:
                told.add(at.block_hash)
                chain.append(at)
                at = None if at.parent_hash is None else live.get(at.parent_hash)
            yield from reversed(chain)


class KvSubscription:
    """One subscriber's position in a relay's batches."""

    def __init__(self, relay: KvRelay, start: int) -> None:
        self._relay = relay
        self._next = start if start or relay.sequence else 1
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Wake the reader: there may be new batches."""
        self._wake.set()

    async def read(self) -> Iterable[bytes]:
        """Return the next messages; wait for at least one."""
        relay = self._relay
        while True:
            messages: Iterable[bytes] | None = relay.since(self._next) if self._next else None
            if messages is None:
                messages = relay.snapshot()
            self._next = relay.sequence + 1
            if messages:
                return messages
            self._wake.clear()
            await self._wake.wait()
