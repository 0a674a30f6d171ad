"""Serializes DisaggregatedParams as the handoff from a prefill replica to a decode replica with this engine."""

from collections.abc import Sequence
from typing import Any

import msgspec

from protos.types import Handoff

_TAG = b"trtllm-1:"
#: Fields of newer versions, which older ones refuse.
_NEWER = ("disagg_request_id", "ctx_dp_rank", "ctx_info_endpoint")


class ForeignHandoff(ValueError):
    """The bytes were not written by a prefill replica with this engine."""


class _State(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sequence's parameters under the library's own names."""

    first_gen_tokens: list[int]
    ctx_request_id: int | None = None
    opaque_state: bytes | None = None
    draft_tokens: list[int] | None = None
    disagg_request_id: int | None = None
    ctx_dp_rank: int | None = None
    ctx_info_endpoint: str | None = None


def pack(parameters: Sequence[Any]) -> Handoff:
    """Serialize the parameters of all sequences of a request, in order."""
    states = [
        _State(
            first_gen_tokens=list(each.first_gen_tokens),
            ctx_request_id=each.ctx_request_id,
            opaque_state=each.opaque_state,
            draft_tokens=None if each.draft_tokens is None else list(each.draft_tokens),
            **{name: getattr(each, name, None) for name in _NEWER},
        )
        for each in parameters
    ]
    return Handoff(_TAG + msgspec.msgpack.encode(states), tuple(state.first_gen_tokens[0] for state in states))


def unpack(handoff: Handoff, sequences: int) -> list[dict[str, Any]]:
    """Return the keywords of DisaggregatedParams for each sequence. Raises ForeignHandoff."""
    if not handoff.opaque_state.startswith(_TAG):
        raise ForeignHandoff("the handoff is of another kind of engine")
    try:
        states = msgspec.msgpack.decode(handoff.opaque_state[len(_TAG) :], type=list[_State])
    except msgspec.DecodeError as error:
        raise ForeignHandoff("the handoff cannot be read") from error
    if len(states) != sequences or not all(state.first_gen_tokens for state in states):
        raise ForeignHandoff(f"the handoff is of {len(states)} sequences and not of {sequences}")
    return [
        {"request_type": "generation_only"}
        | {name: value for name in _State.__struct_fields__ if (value := getattr(state, name)) is not None}
        for state in states
    ]
