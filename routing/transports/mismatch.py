"""Compares a replica's self-description with its configuration."""

from protos.types import ReplicaInfo, Role, Shape
from routing.transports.replica_spec import ReplicaSpec


def mismatch(spec: ReplicaSpec, info: ReplicaInfo) -> str:
    """Describe how a replica differs from its spec; empty where it matches. Values that it does not report match,
    except model, engine, shape and role.
    """
    expected = {"model": spec.model, "engine": spec.engine, "shape": spec.shape, "role": spec.role}
    wrong = [
        f"{name} is {_shown(getattr(info, name))}, configured {_shown(value)}"
        for name, value in expected.items()
        if getattr(info, name) != value
    ]
    if spec.version and info.version and info.version != spec.version:
        wrong.append(f"version is {info.version}, configured {spec.version}")
    if spec.tokenizer_hash and info.tokenizer_hash and info.tokenizer_hash != spec.tokenizer_hash:
        wrong.append(
            f"its tokenizer is another than the model's: hash {info.tokenizer_hash}, here {spec.tokenizer_hash}"
        )
    if info.max_sequence_tokens and info.max_sequence_tokens < spec.context:
        wrong.append(f"max_sequence_tokens is {info.max_sequence_tokens}, the configured context {spec.context}")
    return "; ".join(wrong)


def _shown(value: object) -> str:
    """Format a value as the configuration writes it."""
    if isinstance(value, Shape):
        degrees = (("tp", value.tp), ("ep", value.ep), ("pp", value.pp))
        return " ".join(f"{name}{degree}" for name, degree in degrees if name == "tp" or degree > 1)
    return value.value if isinstance(value, Role) else str(value)
