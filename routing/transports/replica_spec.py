"""A replica as the configuration, or discovery, names it."""

from dataclasses import dataclass

from protos.features import Feature
from protos.types import Role, Shape
from routing.transports.replica_tls import TlsFiles


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """What answers at the address must match. `engine` says which transport carries requests there (registry.py).

    `features` are what an engine that cannot say so itself is trusted with; a session's welcome goes before them.
    `settings` are those that the engine's transport documents. Empty `version` and `tokenizer_hash` match any.
    `host` is the name that one was found by whose address has none.
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
        """The address in gRPC's own notation."""
        return self.address.removeprefix("grpc://").removeprefix("grpcs://")
