"""The spec of a replica, from configuration or discovery."""

from dataclasses import dataclass

from protos.features import Feature
from protos.types import Role, Shape
from routing.transports.replica_tls import TlsFiles


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """What a replica at the address must be. `engine` chooses the transport (registry.py).

    `features` are assumed of an engine that does not report its own; a session's welcome overrides them.
    `settings` are those that the engine's transport documents. Empty `version` and `tokenizer_hash` match any.
    `host` is the name under which a replica was discovered whose address has none.
    """

    id: str
    address: str
    pool: str
    model: str
    engine: str
    shape: Shape
    role: Role
    channels: int
    streams_per_channel: int
    context: int = 0
    version: str = ""
    tokenizer_hash: str = ""
    features: Feature = Feature.TOKENS
    tls: TlsFiles | None = None
    settings: object = None
    host: str = ""

    @property
    def target(self) -> str:
        """Return the address in gRPC's notation."""
        return self.address.removeprefix("grpc://").removeprefix("grpcs://")
