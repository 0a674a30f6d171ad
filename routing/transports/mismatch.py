"""Compares a replica's self-description with its configuration."""

import msgspec

from protos.reshape import Membership
from protos.types import ReplicaInfo, Role, Shape
from routing.transports.replica_spec import ReplicaSpec


def mismatch(spec: ReplicaSpec, info: ReplicaInfo, membership: Membership | None = None) -> str:
    """Describe how a replica differs from its spec; empty where it matches. Values that it does not report match,
    except model, engine, shape and role.

    A replica in a host group has the shape of its span, whatever is configured, and the context of the widest one.
    """
    shape, longest = spec.shape, info.max_sequence_tokens
    if membership is not None:
        shape = info.shape if membership.parked else msgspec.structs.replace(shape, tp=membership.span.width)
        longest = max(longest, *(width.kv_tokens for width in membership.widths)) if membership.widths else longest
    expected = {"model": spec.model, "engine": spec.engine, "shape": shape, "role": spec.role}
    wrong = [
        f"{name} is {_shown(getattr(info, name))}, configured {_shown(value)}"
        for name, value in expected.items()
        if getattr(info, name) != value
    ]
    if spec.version and info.version and info.version != spec.version:
        wrong.append(f"version is {info.version}, configured {spec.version}")
    version = info.version or spec.version
    pinned = dict(spec.tokenizer_hashes).get(version)
    tokenizer_hash, whose = (spec.tokenizer_hash, "the model's") if pinned is None else (pinned, f"that of {version}")
    if tokenizer_hash and info.tokenizer_hash and info.tokenizer_hash != tokenizer_hash:
        wrong.append(f"its tokenizer is another than {whose}: hash {info.tokenizer_hash}, here {tokenizer_hash}")
    if longest and longest < spec.context:
        wrong.append(f"max_sequence_tokens is {longest}, the configured context {spec.context}")
    return "; ".join(wrong)


def group_problem(before: Membership | None, membership: Membership) -> str:
    """Describe what is impossible in a replica's membership, `before` the one until now; empty where it may be."""
    own, span = membership.gpu, membership.span
    if before is not None and (before.group, before.gpus, before.gpu) != (membership.group, membership.gpus, own):
        return f"it was on GPU {before.gpu} of {before.group}, and is now on GPU {own} of {membership.group}"
    if not 0 < span.width <= span.end <= membership.gpus or not span.start <= own < span.end:
        return f"GPU {own} of {membership.gpus} is on the GPUs {span.start} to {span.end - 1}"
    if membership.parked == (own == span.start):
        return f"it is {membership.state.value}, with GPU {own} of the span from GPU {span.start} on"
    return ""


def _shown(value: object) -> str:
    """Format a value as the configuration writes it."""
    if isinstance(value, Shape):
        degrees = (("tp", value.tp), ("ep", value.ep), ("pp", value.pp))
        return " ".join(f"{name}{degree}" for name, degree in degrees if name == "tp" or degree > 1)
    return value.value if isinstance(value, Role) else str(value)
