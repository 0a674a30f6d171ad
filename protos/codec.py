"""Convert between the types of protos/types.py and bytes on the wire: the only reader of protobuf fields."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
from google.protobuf.message import DecodeError

from protos import replica_pb2 as pb
from protos.features import Feature
from protos.packed_ids import PackedIds, delimited
from protos.protocol_error import ProtocolError
from protos.reshape import Membership, ReshapeOrder
from protos.reshape_codec import membership_of, order_of, put_membership, put_order
from protos.submit_codec import encode_submit, handoff_of, put_handoff, put_submit, submit_of
from protos.types import (
    Failure,
    Finish,
    FinishReason,
    KvUpdate,
    Load,
    ReplicaInfo,
    Role,
    Shape,
    Submit,
    Timing,
    TokenLogprobs,
    Work,
)

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

SERVICE = "penstock.replica.v1.Replica"
SESSION_METHOD = f"/{SERVICE}/Session"

_ROLES = {Role.BOTH: pb.ROLE_BOTH, Role.PREFILL: pb.ROLE_PREFILL, Role.DECODE: pb.ROLE_DECODE}
_ROLES_BACK: dict[int, Role] = {wire: role for role, wire in _ROLES.items()}
_REASONS = {
    FinishReason.STOP: pb.FINISH_STOP,
    FinishReason.LENGTH: pb.FINISH_LENGTH,
    FinishReason.CANCELLED: pb.FINISH_CANCELLED,
    FinishReason.ERROR: pb.FINISH_ERROR,
}
_REASONS_BACK = {wire: reason for reason, wire in _REASONS.items()}
# These messages have their struct's fields under the same names: one call reads them all.
_LOAD = attrgetter(*Load.__struct_fields__)
_WORK = attrgetter(*Work.__struct_fields__)
_TIMING = attrgetter(*Timing.__struct_fields__)
_START = attrgetter("stream_id", "cached_tokens")
_OFTEN = attrgetter("seq", "time_us", "stream_ids", "counts", "tokens", "starts", "finishes", "logprobs")
_COUNTS = attrgetter("prompt_tokens", "cached_tokens", "completion_tokens", "prompt_logprobs")


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker's first message. One that only `watches` sends no requests, and does not count in `Load.workers`."""

    protocol_version: int
    worker: str
    kv_updates: bool
    watches: bool = False


@dataclass(frozen=True, slots=True)
class Welcome:
    """A replica's first message; `ack_window` counts steps that may be unacknowledged.

    A replica in a host group says with it how it stands there.
    """

    protocol_version: int
    epoch: int
    info: ReplicaInfo
    ack_window: int
    membership: Membership | None = None


@dataclass(slots=True)
class Up:
    """A batch from a worker: (stream id, submit) pairs, cancelled stream ids, the last step handled.

    `kv_resync`: the worker requests all KV blocks anew. `reshape` is an order about the replica's host group.
    """

    hello: Hello | None
    submits: list[tuple[int, Submit]]
    cancels: list[int]
    ack: int
    kv_resync: bool = False
    reshape: ReshapeOrder | None = None


class Step(msgspec.Struct):
    """One step of an engine as a session carries it.

    `tokens` holds the new tokens of all `stream_ids` in order; `counts` says how many belong to each and is empty
    when each stream gained exactly one. `logprobs` maps a position in `stream_ids` to one entry per token. `starts`
    are (stream id, prompt tokens found in the KV cache) of the streams whose prompt has been computed; where tokens are
    gathered, long before the first of them is sent. `submits_seen` counts the sequences submitted on this session that
    `load` includes; `work` is that of the last engine step, if one ran since the last message. `adapters` are the LoRA
    adapters that are loaded now, None where the replica does not report them.
    """

    seq: int = 0
    time_us: int = 0
    stream_ids: Sequence[int] = ()
    counts: Sequence[int] = ()
    tokens: Sequence[int] = ()
    logprobs: dict[int, list[TokenLogprobs]] = {}
    finishes: list[tuple[int, Finish]] = []
    load: Load | None = None
    kv_update: KvUpdate | None = None
    starts: list[tuple[int, int]] = []
    submits_seen: int = 0
    work: Work | None = None
    adapters: tuple[str, ...] | None = None


def encode_hello(hello: Hello) -> bytes:
    """Encode the Up that opens a session."""
    message = pb.Up(
        hello=pb.Hello(
            protocol_version=hello.protocol_version,
            worker=hello.worker,
            kv_updates=hello.kv_updates,
            watches=hello.watches,
        )
    )
    return message.SerializeToString()


def encode_up(
    submits: Sequence[tuple[int, Submit]], cancels: Iterable[int], ack: int, kv_resync: bool = False
) -> bytes:
    """Encode an Up with everything one event-loop tick gathered."""
    message = pb.Up(cancels=cancels, ack=ack, kv_resync=kv_resync)
    for stream_id, submit in submits:
        if type(submit.prompt_ids) is PackedIds:
            return _encode_long(submits, cancels, ack, kv_resync)
        put_submit(message, stream_id, submit)
    return message.SerializeToString()


def _encode_long(submits: Sequence[tuple[int, Submit]], cancels: Iterable[int], ack: int, kv_resync: bool) -> bytes:
    """Encode an Up with long prompts: each submit on its own, as a message's fields may come in parts."""
    number = pb.Up.SUBMITS_FIELD_NUMBER
    parts = [delimited(number, encode_submit(stream_id, submit)) for stream_id, submit in submits]
    return b"".join((pb.Up(cancels=cancels, ack=ack, kv_resync=kv_resync).SerializeToString(), *parts))


def decode_up(data: bytes) -> Up:
    """Decode an Up. Raises ProtocolError on bytes that do not parse."""
    try:
        message = pb.Up.FromString(data)
    except DecodeError as error:
        raise ProtocolError("not an Up message") from error
    hello = None
    if message.HasField("hello"):
        h = message.hello
        hello = Hello(h.protocol_version, h.worker, h.kv_updates, h.watches)
    submits = [(s.stream_id, submit_of(s)) for s in message.submits]
    reshape = order_of(message.reshape) if message.HasField("reshape") else None
    return Up(hello, submits, list(message.cancels), message.ack, message.kv_resync, reshape)


def encode_order(order: ReshapeOrder) -> bytes:
    """Encode the Up that carries an order about the replica's host group."""
    up = pb.Up()
    put_order(up.reshape, order)
    return up.SerializeToString()


def encode_welcome(welcome: Welcome) -> bytes:
    """Encode the Down that answers a Hello."""
    info = _wire_info(welcome.info)
    down = pb.Down(
        welcome=pb.Welcome(
            protocol_version=welcome.protocol_version, epoch=welcome.epoch, info=info, ack_window=welcome.ack_window
        )
    )
    if welcome.membership is not None:
        put_membership(down.membership, welcome.membership, _wire_info(welcome.membership.info))
    return down.SerializeToString()


def encode_membership(membership: Membership) -> bytes:
    """Encode the Down that says how the replica stands in its host group."""
    down = pb.Down()
    put_membership(down.membership, membership, _wire_info(membership.info))
    return down.SerializeToString()


def encode_step(step: Step) -> bytes:
    """Encode the Down that carries one step."""
    down = pb.Down()
    message = down.step
    message.seq = step.seq
    message.time_us = step.time_us
    message.stream_ids.extend(step.stream_ids)
    message.counts.extend(step.counts)
    message.tokens.extend(step.tokens)
    for position, entries in step.logprobs.items():
        _put_logprobs(message.logprobs, position, entries)
    for stream_id, finish in step.finishes:
        _put_finish(message.finishes.add(), stream_id, finish)
    if step.load is not None:
        load = step.load
        message.load.running = load.running
        message.load.waiting = load.waiting
        message.load.kv_blocks_used = load.kv_blocks_used
        message.load.kv_blocks_total = load.kv_blocks_total
        message.load.tokens_in_flight = load.tokens_in_flight
        message.load.draining = load.draining
        message.load.prefill_tokens = load.prefill_tokens
        message.load.workers = load.workers
        message.load.kv_blocks_reserved = load.kv_blocks_reserved
        message.load.prefill_pairs = load.prefill_pairs
        message.load.steps = load.steps
        message.submits_seen = step.submits_seen
    if step.work is not None:
        work = step.work
        message.work.us = work.us
        message.work.prefill_tokens = work.prefill_tokens
        message.work.prefill_pairs = work.prefill_pairs
        message.work.sequences = work.sequences
        message.work.context = work.context
    if step.kv_update is not None:
        update = step.kv_update
        message.kv_update.update_id = update.update_id
        message.kv_update.reset = update.reset
        message.kv_update.stored.extend(update.stored)
        message.kv_update.removed.extend(update.removed)
    if step.adapters is not None:
        message.adapters.names.extend(step.adapters)
        message.adapters.SetInParent()
    for stream_id, cached_tokens in step.starts:
        message.starts.add(stream_id=stream_id, cached_tokens=cached_tokens)
    return down.SerializeToString()


def decode_down(data: bytes) -> Welcome | Step | Membership:
    """Decode a Down. Raises ProtocolError on bytes that do not parse, on a contradictory step, and on any other
    message.
    """
    try:
        down = pb.Down.FromString(data)
    except DecodeError as error:
        raise ProtocolError("not a Down message") from error
    if down.HasField("step"):
        return _step(down.step)
    if down.HasField("welcome"):
        w = down.welcome
        return Welcome(w.protocol_version, w.epoch, _info(w.info), w.ack_window, _membership(down))
    membership = _membership(down)
    if membership is None:
        raise ProtocolError("a Down without welcome, step or membership")
    return membership


def _membership(down: pb.Down) -> Membership | None:
    if not down.HasField("membership"):
        return None
    return membership_of(down.membership, _info(down.membership.info))


def _step(message: pb.Step) -> Step:
    # Most steps carry only tokens and load: the rarer fields are read only when they are set.
    seq, time_us, ids, runs, new, starts, finishes, logprobs = _OFTEN(message)
    stream_ids, counts, tokens = ids[:], runs[:], new[:]
    if counts:
        if len(counts) != len(stream_ids) or sum(counts) != len(tokens):
            raise ProtocolError("a step whose counts do not fit its streams and tokens")
    elif len(stream_ids) != len(tokens):
        raise ProtocolError("a step without counts must have one token a stream")
    step = Step(seq, time_us, stream_ids, counts, tokens)
    has = message.HasField
    if has("load"):
        step.load = Load(*_LOAD(message.load))
        step.submits_seen = message.submits_seen
    if has("work"):
        step.work = Work(*_WORK(message.work))
    if starts:
        step.starts = [*map(_START, starts)]
    if finishes:
        step.finishes = [*map(_finish, finishes)]
    if logprobs:
        step.logprobs = _logprobs_of(message, counts or [1] * len(stream_ids))
    if has("kv_update"):
        update = message.kv_update
        step.kv_update = KvUpdate(update.update_id, update.reset, list(update.stored), list(update.removed))
    if has("adapters"):
        step.adapters = tuple(message.adapters.names)
    return step


def _wire_info(info: ReplicaInfo) -> pb.Info:
    return pb.Info(
        model=info.model,
        engine=info.engine,
        fingerprint=info.fingerprint,
        shape=pb.Shape(tp=info.shape.tp, ep=info.shape.ep, pp=info.shape.pp),
        role=_ROLES[info.role],
        max_batch_size=info.max_batch_size,
        max_sequence_tokens=info.max_sequence_tokens,
        kv_block_tokens=info.kv_block_tokens,
        kv_blocks_total=info.kv_blocks_total,
        max_num_tokens=info.max_num_tokens,
        reserves_output=info.reserves_output,
        version=info.version,
        tokenizer_hash=info.tokenizer_hash,
        features=info.features,
        adapters=info.adapters,
    )


def _info(message: pb.Info) -> ReplicaInfo:
    shape = message.shape
    return ReplicaInfo(
        model=message.model,
        engine=message.engine,
        fingerprint=message.fingerprint,
        shape=Shape(tp=shape.tp, ep=shape.ep, pp=shape.pp),
        role=_role(message.role),
        max_batch_size=message.max_batch_size,
        max_sequence_tokens=message.max_sequence_tokens,
        kv_block_tokens=message.kv_block_tokens,
        kv_blocks_total=message.kv_blocks_total,
        max_num_tokens=message.max_num_tokens,
        reserves_output=message.reserves_output,
        version=message.version,
        tokenizer_hash=message.tokenizer_hash,
        features=Feature(message.features),
        adapters=tuple(message.adapters),
    )


def _role(wire: int) -> Role:
    role = _ROLES_BACK.get(wire)
    if role is None:
        raise ProtocolError(f"a role that is not known here: {wire}")
    return role


def _put_finish(message: pb.Finish, stream_id: int, finish: Finish) -> None:
    message.stream_id = stream_id
    message.reason = _REASONS[finish.reason]
    message.prompt_tokens = finish.prompt_tokens
    message.cached_tokens = finish.cached_tokens
    message.completion_tokens = finish.completion_tokens
    timing = finish.timing
    message.timing.queue_us = timing.queue_us
    message.timing.prefill_us = timing.prefill_us
    message.timing.decode_us = timing.decode_us
    if finish.failure is not None:
        message.failure.code = finish.failure.code
        message.failure.message = finish.failure.message
        message.failure.param = finish.failure.param or ""
        message.failure.moved_to = finish.failure.moved_to
    if finish.handoff is not None:
        put_handoff(message.handoff, finish.handoff)
    if finish.prompt_logprobs:
        _put_logprobs(message.prompt_logprobs, 0, finish.prompt_logprobs)


def _finish(message: pb.Finish) -> tuple[int, Finish]:
    failure = handoff = None
    # Most sequences end without either.
    if message.HasField("failure"):
        f = message.failure
        failure = Failure(f.code, f.message, f.param or None, f.moved_to)
    if message.HasField("handoff"):
        handoff = handoff_of(message.handoff)
    # A reason newer than this code ends the sequence all the same, as an unknown one.
    reason = _REASONS_BACK.get(message.reason, FinishReason.ERROR)
    prompt, cached, completion, runs = _COUNTS(message)
    timing = Timing(*_TIMING(message.timing))
    if runs:
        scores = tuple(entry for run in runs for entry in _entries(run))
        return message.stream_id, Finish(reason, prompt, cached, completion, timing, failure, handoff, scores)
    return message.stream_id, Finish(reason, prompt, cached, completion, timing, failure, handoff)


def _put_logprobs(
    runs: "RepeatedCompositeFieldContainer[pb.Logprobs]", position: int, entries: Sequence[TokenLogprobs]
) -> None:
    # Engines may list one more alternative where the chosen token is none of the best: a run per width, in order.
    run: pb.Logprobs | None = None
    for entry in entries:
        if run is None or run.width != len(entry.top):
            run = runs.add(position=position, width=len(entry.top))
        run.chosen.append(entry.chosen)
        run.top_ids.extend(token for token, _ in entry.top)
        run.top.extend(logprob for _, logprob in entry.top)


def _logprobs_of(message: pb.Step, counts: list[int]) -> dict[int, list[TokenLogprobs]]:
    found: dict[int, list[TokenLogprobs]] = {}
    for run in message.logprobs:
        found.setdefault(run.position, []).extend(_entries(run))
    for position, entries in found.items():
        if position >= len(counts) or len(entries) != counts[position]:
            raise ProtocolError("logprobs that do not fit the tokens of their stream")
    return found


def _entries(run: pb.Logprobs) -> list[TokenLogprobs]:
    chosen, width = run.chosen, run.width
    if not len(run.top_ids) == len(run.top) == width * len(chosen):
        raise ProtocolError("logprobs whose alternatives do not fit their width")
    top = list(zip(run.top_ids, run.top, strict=True))
    return [TokenLogprobs(value, tuple(top[i * width : (i + 1) * width])) for i, value in enumerate(chosen)]
