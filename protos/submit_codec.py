"""Encode and decode submits: the part of protos/codec.py that changes with each new parameter of a request."""

import msgspec

from protos import replica_pb2 as pb
from protos.packed_ids import PackedIds
from protos.protocol_error import ProtocolError
from protos.types import Adapter, Guide, GuideKind, Handoff, Sampling, Submit


def encode_submit(stream_id: int, submit: Submit) -> bytes:
    """Encode a submit; packed ids go in as they are."""
    message, ids = pb.Submit(), submit.prompt_ids
    if not isinstance(ids, PackedIds):
        put_submit(message, stream_id, submit)
        return message.SerializeToString()
    put_submit(message, stream_id, msgspec.structs.replace(submit, prompt_ids=()))
    return message.SerializeToString() + ids.field(pb.Submit.PROMPT_IDS_FIELD_NUMBER)


def put_submit(message: pb.Submit, stream_id: int, submit: Submit) -> None:
    """Write a submit into its message."""
    message.stream_id = stream_id
    message.request_id = submit.request_id
    message.prompt_ids.extend(submit.prompt_ids)
    message.generated = submit.generated
    message.max_tokens = submit.max_tokens
    message.delta_interval = submit.delta_interval
    message.cache_salt = submit.cache_salt
    message.prefill_only = submit.prefill_only
    message.sequence = submit.sequence
    if submit.handoff is not None:
        put_handoff(message.handoff, submit.handoff)
    if submit.adapter is not None:
        message.adapter.name = submit.adapter.name
        message.adapter.path = submit.adapter.path
    if submit.guide is not None:
        message.guide.kind = submit.guide.kind.value
        message.guide.text = submit.guide.text
    if submit.trace:
        message.trace = submit.trace
    s, m = submit.sampling, message.sampling
    m.n = s.n
    # Optional fields: absent on the wire means that the engine's default applies.
    if s.temperature is not None:
        m.temperature = s.temperature
    if s.top_p is not None:
        m.top_p = s.top_p
    if s.top_k is not None:
        m.top_k = s.top_k
    if s.min_p is not None:
        m.min_p = s.min_p
    if s.seed is not None:
        m.seed = s.seed
    if s.repetition_penalty is not None:
        m.repetition_penalty = s.repetition_penalty
    if s.logprobs is not None:
        m.logprobs = s.logprobs
    m.presence_penalty = s.presence_penalty
    m.frequency_penalty = s.frequency_penalty
    m.ignore_eos = s.ignore_eos
    m.min_tokens = s.min_tokens
    if s.logit_bias:
        m.logit_bias.update(s.logit_bias)
    if s.stop_token_ids:
        m.stop_token_ids.extend(s.stop_token_ids)


def submit_of(message: pb.Submit) -> Submit:
    """Read a submit from its message. Raises ProtocolError."""
    m = message.sampling
    sampling = Sampling(
        n=m.n,
        temperature=m.temperature if m.HasField("temperature") else None,
        top_p=m.top_p if m.HasField("top_p") else None,
        top_k=m.top_k if m.HasField("top_k") else None,
        min_p=m.min_p if m.HasField("min_p") else None,
        seed=m.seed if m.HasField("seed") else None,
        presence_penalty=m.presence_penalty,
        frequency_penalty=m.frequency_penalty,
        repetition_penalty=m.repetition_penalty if m.HasField("repetition_penalty") else None,
        logit_bias=dict(m.logit_bias),
        stop_token_ids=tuple(m.stop_token_ids),
        ignore_eos=m.ignore_eos,
        min_tokens=m.min_tokens,
        logprobs=m.logprobs if m.HasField("logprobs") else None,
    )
    return Submit(
        request_id=message.request_id,
        prompt_ids=list(message.prompt_ids),
        max_tokens=message.max_tokens,
        sampling=sampling,
        generated=message.generated,
        delta_interval=message.delta_interval,
        cache_salt=message.cache_salt,
        handoff=handoff_of(message.handoff) if message.HasField("handoff") else None,
        prefill_only=message.prefill_only,
        sequence=message.sequence,
        adapter=Adapter(message.adapter.name, message.adapter.path) if message.HasField("adapter") else None,
        guide=_guide(message.guide) if message.HasField("guide") else None,
        trace=message.trace,
    )


def _guide(message: pb.Guide) -> Guide:
    try:
        return Guide(GuideKind(message.kind), message.text)
    except ValueError as error:
        # Without its guide the answer would be unconstrained, which nobody asked for.
        raise ProtocolError(f"a guide of a kind that is not known here: {message.kind[:64]}") from error


def put_handoff(message: pb.Handoff, handoff: Handoff) -> None:
    """Write a handoff into its message."""
    message.opaque_state = handoff.opaque_state
    message.first_tokens.extend(handoff.first_tokens)


def handoff_of(message: pb.Handoff) -> Handoff:
    """Read a handoff from its message."""
    return Handoff(message.opaque_state, tuple(message.first_tokens))
