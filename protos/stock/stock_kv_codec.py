"""Decode and encode the stock service's KV cache events: smg.grpc.common of the package smg-grpc-proto."""

from array import array
from collections.abc import Iterable, Sequence

import msgspec
from google.protobuf.message import DecodeError
from smg_grpc_proto.generated import common_pb2 as pb

from protos.protocol_error import ProtocolError
from protos.types import KvEvent, KvRemoved, KvStored


class LiveBlock(msgspec.Struct, frozen=True):
    """A reusable block with its parent; its tokens are 32-bit words, a tenth of the ints' size."""

    block_hash: int
    parent_hash: int | None
    tokens: bytes
    salt: str


def decode_subscribe(data: bytes) -> int:
    """Return the sequence number to continue from; 0: from the current state. Raises ProtocolError."""
    try:
        return int(pb.SubscribeKvEventsRequest.FromString(data).start_sequence_number)
    except DecodeError as error:
        raise ProtocolError("not a SubscribeKvEventsRequest") from error


def encode_batch(sequence: int, seconds: float, events: Iterable[KvEvent], *, cleared: bool) -> bytes:
    """Encode the events of one engine step, after the clearing of all earlier state, if there was one."""
    batch = pb.KvEventBatch(sequence_number=sequence, timestamp=seconds)
    if cleared:
        batch.events.add().cleared.SetInParent()
    for event in events:
        data = event.data
        if isinstance(data, KvStored):
            message = batch.events.add(event_id=event.event_id)
            stored = message.stored
            stored.SetInParent()
            if data.parent_hash is not None:
                stored.parent_block_hash = _signed(data.parent_hash)
            elif data.salt:
                stored.cache_salt = data.salt
            for block_hash, token_ids in data.blocks:
                stored.blocks.add(block_hash=_signed(block_hash), token_ids=token_ids, block_size=len(token_ids))
        elif isinstance(data, KvRemoved):
            message = batch.events.add(event_id=event.event_id)
            message.removed.block_hashes.extend(map(_signed, data.block_hashes))
            message.removed.SetInParent()
    return bytes(batch.SerializeToString())


def encode_snapshot(
    sequence: int, seconds: float, blocks: Sequence[LiveBlock], *, index: int, count: int, total: int, unknown: int
) -> bytes:
    """Encode one of the chunks of all reusable blocks: `total` blocks, except those that `unknown` earlier batches
    stored.
    """
    snapshot = pb.KvSnapshotChunk(index=index, count=count, blocks=total, unknown_before=unknown)
    batch = pb.KvEventBatch(sequence_number=sequence, timestamp=seconds, snapshot=snapshot)
    if index == 0:
        batch.events.add().cleared.SetInParent()
    for block in blocks:
        stored = batch.events.add().stored
        if block.parent_hash is not None:
            stored.parent_block_hash = _signed(block.parent_hash)
        elif block.salt:
            stored.cache_salt = block.salt
        token_ids = array("I", block.tokens)
        stored.blocks.add(block_hash=_signed(block.block_hash), token_ids=token_ids, block_size=len(token_ids))
    return bytes(batch.SerializeToString())


def _signed(value: int) -> int:
    """Convert a 64-bit hash to the wire's signed form, as the stock server's bridge does."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value
