"""The registry of transports by engine; each is imported only when a replica needs it."""

from importlib import import_module
from typing import Final

from routing.transports.replica_connection import ReplicaConnection, TransportContext
from routing.transports.replica_spec import ReplicaSpec

#: Engine, as configurations name it -> module and class of its transport.
TRANSPORTS: Final[dict[str, tuple[str, str]]] = {
    "simulated": ("session_transport", "SessionConnection"),
    "tensorrt_llm": ("session_transport", "SessionConnection"),
    "trtllm_grpc": ("trtllm_grpc", "TrtllmConnection"),
    "triton": ("triton.triton_connection", "TritonConnection"),
    "openai": ("openai.openai_connection", "OpenAIConnection"),
    # No configuration names it: the endpoint picker puts it in the place of `openai`.
    "picked": ("openai.picked_connection", "PickedConnection"),
}


def connection_to(spec: ReplicaSpec, context: TransportContext) -> ReplicaConnection:
    """Make the transport for a replica's engine, not started. Raises KeyError for an unknown engine."""
    module, name = TRANSPORTS[spec.engine]
    kind: type[ReplicaConnection] = getattr(import_module(f"routing.transports.{module}"), name)
    return kind(spec, context)
