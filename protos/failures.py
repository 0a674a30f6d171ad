"""Convert a replica's failures to errors of the one tree."""

from typing import Final

from protos.errors import (
    ContextLengthExceeded,
    PenstockError,
    ReplicaDraining,
    ReplicaFailed,
    SequenceMoved,
    UnsupportedParameter,
)
from protos.types import Failure

#: Codes that a replica may put into `Failure.code`, and their classes at the gateway.
FAILURES: Final[dict[str, type[PenstockError]]] = {
    "context_length_exceeded": ContextLengthExceeded,
    "unsupported_parameter": UnsupportedParameter,
    "draining": ReplicaDraining,
    "moved": SequenceMoved,
    "engine_error": ReplicaFailed,
}
_PUBLIC: Final[dict[type[PenstockError], str]] = {
    ContextLengthExceeded: "The request is longer than this model's replicas can take.",
    UnsupportedParameter: "Unsupported value: '{param}' cannot be honoured by this model's engine.",
    ReplicaDraining: "The replica is draining.",
    SequenceMoved: "The replica's GPUs belong to another one now.",
    ReplicaFailed: "The model's engine failed on this request.",
}
#: Used where an engine does not name the parameter.
_UNNAMED: Final = "This model's engine cannot honour something that the request asks for."


def from_failure(failure: Failure) -> PenstockError:
    """Make the error of a replica's failure. The engine's own message goes to the log and not to the client."""
    kind, param = FAILURES.get(failure.code, ReplicaFailed), failure.param
    public = _PUBLIC[kind] if param or kind is not UnsupportedParameter else _UNNAMED
    error = kind(public.format(param=param), param=param)
    error.detail = f"{failure.code}: {failure.message}"
    if isinstance(error, SequenceMoved):
        error.moved_to = failure.moved_to
    return error
