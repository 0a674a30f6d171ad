"""KV cache events for subscribers of the stock service, as a router's index follows them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from smg_grpc_proto.generated import common_pb2

from protos.types import KvCreated, KvEvent, KvRemoved, KvStored
from replicas import kv_relay
from replicas.kv_relay import KvRelay, KvSubscription


def stored(number: int, *hashes: int, parent: int | None = None, salt: str = "") -> KvEvent:
    return KvEvent(number, KvStored(parent, tuple((block, (block, block)) for block in hashes), salt))


def removed(number: int, *hashes: int) -> KvEvent:
    return KvEvent(number, KvRemoved(hashes))


class Index:
    """What a subscriber makes of the batches; it takes them as the proto's comments say."""

    def __init__(self, subscription: KvSubscription) -> None:
        self.held: dict[int, int | None] = {}
        self.sequence = 0
        self.snapshots = 0
        self.unknown = 0
        self._subscription = subscription

    async def read(self) -> None:
        for data in await self._subscription.read():
            batch = common_pb2.KvEventBatch.FromString(data)
            if batch.HasField("snapshot"):
                self.snapshots += batch.snapshot.index == 0
                self.unknown = batch.snapshot.unknown_before
            elif self.sequence:
                assert batch.sequence_number == self.sequence + 1
            self.sequence = batch.sequence_number
            for event in batch.events:
                self._apply(event)

    def _apply(self, event: common_pb2.KvCacheEvent) -> None:
        if event.HasField("cleared"):
            self.held.clear()
        elif event.HasField("removed"):
            for block_hash in event.removed.block_hashes:
                self.held.pop(block_hash, None)
        else:
            parent = event.stored.parent_block_hash if event.stored.HasField("parent_block_hash") else None
            for block in event.stored.blocks:
                assert list(block.token_ids) == [block.block_hash] * 2
                self.held[block.block_hash] = parent
                parent = block.block_hash


def follow(relay: KvRelay, start: int = 0) -> Index:
    return Index(relay.subscribe(start))


async def test_a_late_subscriber_gets_a_snapshot_and_then_what_follows() -> None:
    relay = KvRelay(100)
    first = follow(relay)
    relay.take([KvEvent(0, KvCreated((50, 10))), stored(1, 1, 2)])
    relay.take([stored(2, 3, parent=2), removed(3, 1)])
    late = follow(relay)
    await first.read()
    await late.read()
    assert first.held == late.held == {2: 1, 3: 2}
    assert (first.snapshots, late.snapshots, late.sequence, late.unknown) == (0, 1, 2, 0)
    relay.take([stored(4, 9)])
    await late.read()
    assert (late.sequence, late.held) == (3, {2: 1, 3: 2, 9: None})


async def test_a_snapshot_says_what_was_however_late_its_messages_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_relay, "SNAPSHOT_BLOCKS", 2)

    relay = KvRelay(100)
    relay.subscribe(0)
    for number in range(9):
        relay.take([stored(number, number)])
    late = relay.subscribe(0)
    messages = iter(await late.read())
    first = common_pb2.KvEventBatch.FromString(next(messages))
    relay.take([removed(9, *range(9))])
    rest = [common_pb2.KvEventBatch.FromString(data) for data in messages]
    numbers = [batch.sequence_number for batch in (first, *rest)]
    assert numbers == [5, 6, 7, 8, 9]
    told = [block.block_hash for batch in (first, *rest) for event in batch.events for block in event.stored.blocks]
    assert told == list(range(9))
    (then,) = await late.read()
    assert common_pb2.KvEventBatch.FromString(then).sequence_number == 10


async def test_what_was_before_the_first_subscriber_is_said_to_be_unknown() -> None:
    relay = KvRelay(100)
    for number in range(3):
        relay.take([stored(number, number)])
    index = follow(relay)
    await index.read()
    assert (index.unknown, index.held, index.sequence) == (3, {}, 3)


async def test_a_subscriber_goes_on_where_it_was() -> None:
    relay = KvRelay(100)
    relay.subscribe(0)
    for number in range(5):
        relay.take([stored(number, number)])
    index = follow(relay, 4)
    await index.read()
    assert (index.snapshots, index.held) == (0, {3: None, 4: None})
    ahead = follow(relay, 6)
    reader = asyncio.create_task(ahead.read())
    await asyncio.sleep(0)
    relay.take([stored(5, 7)])
    await reader
    assert ahead.held == {7: None}
    stranger = follow(relay, 1000)  # of the replica's earlier life
    await stranger.read()
    assert (stranger.snapshots, len(stranger.held)) == (1, 6)


async def test_one_that_does_not_read_gets_a_snapshot_in_place_of_what_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("replicas.kv_relay.HISTORY_BYTES", 200)
    monkeypatch.setattr("replicas.kv_relay.SNAPSHOT_BLOCKS", 7)
    relay = KvRelay(1000)
    slow = follow(relay)
    for number in range(60):
        relay.take([stored(number, number + 1, parent=number or None)])
    assert len(relay._history) < 20
    await slow.read()
    assert (slow.snapshots, slow.sequence, len(slow.held)) == (1, 60, 60)


async def test_a_loss_of_events_voids_all_that_was_said() -> None:
    relay = KvRelay(100)
    index = follow(relay)
    relay.take([stored(0, 1)])
    relay.take([stored(1, 2), stored(5, 3)])
    await index.read()
    assert index.held == {3: None}
    late = follow(relay)
    await late.read()
    assert late.held == index.held


async def test_no_more_blocks_are_kept_than_the_cache_has() -> None:
    relay = KvRelay(10)
    relay.subscribe(0)
    relay.take([stored(0, *range(1, 50))])
    assert len(relay._live) == 10


@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=4), max_size=25
    ),
    st.integers(1, 400),
    st.integers(1, 5),
)
async def test_every_subscriber_comes_to_know_the_same(
    steps: list[list[tuple[bool, int, int]]], history: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replicas.kv_relay.HISTORY_BYTES", history)
        patch.setattr("replicas.kv_relay.SNAPSHOT_BLOCKS", chunk)
        relay, held, number = KvRelay(100), dict[int, int | None](), 0
        eager, lazy = follow(relay), follow(relay)
        for step in steps:
            events = []
            for is_stored, block, parent in step:
                if is_stored:
                    before = parent if parent in held and parent != block else None
                    held[block] = before
                    events.append(stored(number, block, parent=before))
                else:
                    held.pop(block, None)
                    events.append(removed(number, block))
                number += 1
            relay.take(events)
            await eager.read()
            assert eager.held == held
        if steps:
            await lazy.read()
            assert lazy.held == held
            assert lazy.sequence == eager.sequence == len(steps)
