import contextlib
import inspect
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protos import codec
from protos import replica_pb2 as pb
from protos.features import Feature
from protos.protocol_error import ProtocolError
from protos.reshape import Membership, MemberState, MemberWidth, Participant, ReshapeOrder, ReshapePhase, Span
from protos.types import (
    Adapter,
    Failure,
    Finish,
    FinishReason,
    Guide,
    GuideKind,
    Handoff,
    KvUpdate,
    Load,
    ReplicaInfo,
    Role,
    Sampling,
    Shape,
    Submit,
    Timing,
    TokenLogprobs,
    Work,
)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IDS = st.lists(U32, max_size=8).map(tuple)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


HANDOFFS = st.builds(Handoff, opaque_state=st.binary(max_size=20), first_tokens=IDS)
SAMPLINGS = st.builds(
    Sampling,
    n=U32,
    temperature=maybe(FLOATS),
    top_p=maybe(FLOATS),
    top_k=maybe(U32),
    min_p=maybe(FLOATS),
    seed=maybe(U64),
    presence_penalty=FLOATS,
    frequency_penalty=FLOATS,
    repetition_penalty=maybe(FLOATS),
    logit_bias=st.dictionaries(U32, FLOATS, max_size=4),
    stop_token_ids=IDS,
    ignore_eos=st.booleans(),
    min_tokens=U32,
    logprobs=maybe(U32),
    prompt_logprobs=st.booleans(),
)
SUBMITS = st.builds(
    Submit,
    request_id=TEXT,
    prompt_ids=st.lists(U32, max_size=20),
    max_tokens=U32,
    sampling=SAMPLINGS,
    generated=U32,
    delta_interval=U32,
    cache_salt=TEXT,
    handoff=maybe(HANDOFFS),
    prefill_only=st.booleans(),
    sequence=U32,
    adapter=maybe(st.builds(Adapter, name=TEXT, path=TEXT)),
    guide=maybe(st.builds(Guide, kind=st.sampled_from(GuideKind), text=TEXT)),
    payload=st.none(),  # not of the wire
    trace=TEXT,
    hold_ms=U32,
)
ENTRIES = st.builds(TokenLogprobs, chosen=FLOATS, top=st.lists(st.tuples(U32, FLOATS), max_size=3).map(tuple))
FINISHES = st.builds(
    Finish,
    # What a filter cut off is the gateway's to say.
    reason=st.sampled_from([reason for reason in FinishReason if reason is not FinishReason.CONTENT_FILTER]),
    prompt_tokens=U32,
    cached_tokens=U32,
    completion_tokens=U32,
    timing=st.builds(Timing, queue_us=U64, prefill_us=U64, decode_us=U64),
    failure=maybe(st.builds(Failure, code=TEXT, message=TEXT, param=maybe(TEXT.filter(bool)), moved_to=U64)),
    handoff=maybe(HANDOFFS),
    prompt_logprobs=st.lists(ENTRIES, max_size=4).map(tuple),
)
LOADS = st.builds(
    Load,
    running=U32,
    waiting=U32,
    kv_blocks_used=U32,
    kv_blocks_total=U32,
    tokens_in_flight=U64,
    draining=st.booleans(),
    prefill_tokens=U64,
    workers=U32,
    kv_blocks_reserved=U32,
    prefill_pairs=U64,
    steps=U64,
)
WORKS = st.builds(Work, us=U32, prefill_tokens=U32, prefill_pairs=U64, sequences=U32, context=U64)
HASHES = st.lists(U64, max_size=4)
KV_UPDATES = st.builds(KvUpdate, update_id=U64, reset=st.booleans(), stored=HASHES, removed=HASHES)
INFOS = st.builds(
    ReplicaInfo,
    model=TEXT,
    engine=TEXT,
    fingerprint=TEXT,
    shape=st.builds(Shape, tp=U32, ep=U32, pp=U32),
    role=st.sampled_from(Role),
    max_batch_size=U32,
    max_sequence_tokens=U32,
    kv_block_tokens=U32,
    kv_blocks_total=U32,
    max_num_tokens=U32,
    reserves_output=st.booleans(),
    version=TEXT,
    tokenizer_hash=TEXT,
    features=st.integers(0, 2**63).map(Feature),
    adapters=st.lists(TEXT, max_size=3).map(tuple),
)
SPANS = st.builds(Span, start=U32, width=U32)
ORDERS = st.builds(
    ReshapeOrder,
    change=U64,
    phase=st.sampled_from(ReshapePhase),
    group=TEXT,
    before=st.lists(SPANS, max_size=3).map(tuple),
    after=st.lists(SPANS, max_size=3).map(tuple),
    participants=st.lists(st.builds(Participant, address=TEXT, gpu=U32, epoch=U64), max_size=3).map(tuple),
    timeout_ms=U32,
)
WIDTHS = st.builds(MemberWidth, width=U32, kv_tokens=U64, relative_rate=FLOATS, change_ms=U32)
MEMBERSHIPS = st.builds(
    Membership,
    group=TEXT,
    gpus=U32,
    gpu=U32,
    state=st.sampled_from(MemberState),
    span=SPANS,
    info=INFOS,
    change=U64,
    failure=TEXT,
    served_by=U64,
    widths=st.lists(WIDTHS, max_size=3).map(tuple),
    revision=U32,
)
WELCOMES = st.builds(
    codec.Welcome, protocol_version=U32, epoch=U64, info=INFOS, ack_window=U32, membership=maybe(MEMBERSHIPS)
)


@st.composite
def steps(draw: st.DrawFn) -> codec.Step:
    single: bool = draw(st.booleans())
    runs: list[list[int]] = draw(st.lists(st.lists(U32, max_size=4), max_size=5))
    runs = [run[:1] or [7] for run in runs] if single else runs
    logprobs = {
        position: draw(st.lists(ENTRIES, min_size=len(run), max_size=len(run)))
        for position, run in enumerate(runs)
        if run and position % 2
    }
    load = draw(maybe(LOADS))
    return codec.Step(
        seq=draw(U64),
        time_us=draw(U64),
        stream_ids=draw(st.lists(U32, min_size=len(runs), max_size=len(runs))),
        counts=[] if single else [len(run) for run in runs],
        tokens=[token for run in runs for token in run],
        logprobs=logprobs,
        finishes=draw(st.lists(st.tuples(U32, FINISHES), max_size=3)),
        load=load,
        kv_update=draw(maybe(KV_UPDATES)),
        starts=draw(st.lists(st.tuples(U32, U32), max_size=3)),
        submits_seen=draw(U64) if load else 0,
        work=draw(maybe(WORKS)),
        adapters=draw(maybe(st.lists(TEXT, max_size=3).map(tuple))),
    )


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (Sampling, SAMPLINGS),
        (Submit, SUBMITS),
        (Finish, FINISHES),
        (Load, LOADS),
        (Work, WORKS),
        (KvUpdate, KV_UPDATES),
        (ReplicaInfo, INFOS),
        (ReshapeOrder, ORDERS),
        (Membership, MEMBERSHIPS),
    ],
)
def test_the_strategies_cover_every_field(kind: type, strategy: object) -> None:
    # A field that is added and not drawn here would not be known to survive the wire.
    assert all(f"{name}=" in repr(strategy) for name in inspect.signature(kind).parameters)


@given(
    submits=st.lists(st.tuples(U32, SUBMITS), max_size=3),
    cancels=st.lists(U32, max_size=5),
    ack=U64,
    kv_resync=st.booleans(),
)
def test_a_batch_survives_the_wire(
    submits: list[tuple[int, Submit]], cancels: list[int], ack: int, kv_resync: bool
) -> None:
    up = codec.decode_up(codec.encode_up(submits, cancels, ack, kv_resync))
    assert up == codec.Up(None, submits, cancels, ack, kv_resync)


@given(version=U32, worker=TEXT, kv_updates=st.booleans(), watches=st.booleans())
def test_a_hello_survives_the_wire(version: int, worker: str, kv_updates: bool, watches: bool) -> None:
    hello = codec.Hello(version, worker, kv_updates, watches)
    up = codec.decode_up(codec.encode_hello(hello))
    assert up == codec.Up(hello, [], [], 0)


@given(welcome=WELCOMES)
def test_a_welcome_survives_the_wire(welcome: codec.Welcome) -> None:
    assert codec.decode_down(codec.encode_welcome(welcome)) == welcome


@given(order=ORDERS)
def test_an_order_survives_the_wire(order: ReshapeOrder) -> None:
    assert codec.decode_up(codec.encode_order(order)) == codec.Up(None, [], [], 0, reshape=order)


@given(membership=MEMBERSHIPS)
def test_a_membership_survives_the_wire(membership: Membership) -> None:
    assert codec.decode_down(codec.encode_membership(membership)) == membership


@given(step=steps())
@example(step=codec.Step(0, 0, [], [], []))
@example(step=codec.Step(1, 0, [5], [0], []))
def test_a_step_survives_the_wire(step: codec.Step) -> None:
    assert codec.decode_down(codec.encode_step(step)) == step


@given(data=st.binary(max_size=200))
def test_garbage_is_a_protocol_error_or_a_message(data: bytes) -> None:
    for decode in (codec.decode_up, codec.decode_down):
        with contextlib.suppress(ProtocolError):
            decode(data)


@given(step=steps(), welcome=WELCOMES, submit=SUBMITS, data=st.data())
def test_damaged_messages_are_protocol_errors_or_messages(
    step: codec.Step, welcome: codec.Welcome, submit: Submit, data: st.DataObject
) -> None:
    encoded = data.draw(
        st.sampled_from(
            [codec.encode_step(step), codec.encode_welcome(welcome), codec.encode_up([(1, submit)], [2], 3)]
        )
    )
    at = data.draw(st.integers(0, max(0, len(encoded) - 1)))
    damage = data.draw(st.binary(max_size=3))
    for damaged in (encoded[:at], encoded[:at] + damage + encoded[at + len(damage) :], encoded[:at] + damage):
        for decode in (codec.decode_up, codec.decode_down):
            with contextlib.suppress(ProtocolError):
                decode(damaged)


def down(**fields: Any) -> bytes:
    return pb.Down(step=pb.Step(**fields)).SerializeToString()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        down(stream_ids=[1, 2], tokens=[5]),
        down(stream_ids=[1], tokens=[5, 6]),
        down(stream_ids=[1, 2], counts=[1], tokens=[5]),
        down(stream_ids=[1], counts=[3], tokens=[5]),
        down(stream_ids=[1], tokens=[5], logprobs=[pb.Logprobs(position=1, chosen=[-1])]),
        down(stream_ids=[1], tokens=[5], logprobs=[pb.Logprobs(position=0, chosen=[-1, -2])]),
        down(stream_ids=[1], tokens=[5], logprobs=[pb.Logprobs(chosen=[-1], width=2, top_ids=[1], top=[-1])]),
        down(stream_ids=[1], tokens=[5], logprobs=[pb.Logprobs(chosen=[-1], width=1, top_ids=[1, 2], top=[-1])]),
        pb.Down(welcome=pb.Welcome(info=pb.Info(role=9))).SerializeToString(),  # type: ignore[arg-type]
        pb.Down(membership=pb.Membership(state=9)).SerializeToString(),  # type: ignore[arg-type]
    ],
)
def test_a_message_that_contradicts_itself_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_down(data)


def test_what_a_newer_replica_says_does_not_break_this_worker() -> None:
    step = codec.decode_down(down(finishes=[pb.Finish(stream_id=1, reason=9)]))  # type: ignore[arg-type]
    assert isinstance(step, codec.Step)
    assert step.finishes == [(1, Finish(FinishReason.ERROR))]


@pytest.mark.parametrize(
    "encode",
    [
        lambda: codec.encode_up([(1, Submit("r", [-1], 1))], [], 0),
        lambda: codec.encode_up([(1, Submit("r", [1 << 32], 1))], [], 0),
        lambda: codec.encode_step(codec.Step(stream_ids=[1], tokens=[-1])),
    ],
)
def test_what_the_wire_cannot_carry_is_an_error_of_the_sender(encode: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        encode()
