"""Encode and decode submits: the part of protos/codec.py that changes with each new parameter of a request."""

import msgspec

from protos import replica_pb2 as pb
from protos.packed_ids import PackedIds
from protos.protocol_error import ProtocolError
from protos.types import Adapter, Guide, GuideKind, Handoff, Sampling, Submit


def encode_submit(stream_id: int, submit: Submit) -> bytes:
    """Encode a submit; packed ids go in as they are."""
    up, ids = pb.Up(), submit.prompt_ids
    if not isinstance(ids, PackedIds):
        put_submit(up, stream_id, submit)
        return up.submits[0].SerializeToString()
    put_submit(up, stream_id, msgspec.structs.replace(submit, prompt_ids=()))
    return up.submits[0].SerializeToString() + ids.field(pb.Submit.PROMPT_IDS_FIELD_NUMBER)


def put_submit(up: pb.Up, stream_id: int, submit: Submit) -> None:
    """Add a submit to an Up. Raises TypeError or ValueError where a value does not fit its field."""
    # The structs leave out what has its default, and their fields are named as the message's: both in one call each.
    fields = msgspec.to_builtins(submit, builtin_types=(bytes,))
    if submit.payload is not None:
        del fields["payload"]
    message = up.submits.add(stream_id=stream_id, **fields)
    # On the wire their default is 0.
    message.delta_interval = submit.delta_interval
    message.sampling.n = submit.sampling.n


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
        prompt_logprobs=m.prompt_logprobs,
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
        hold_ms=message.hold_ms,
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
