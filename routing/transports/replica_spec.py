"""The spec of a replica, from configuration or discovery."""

from dataclasses import dataclass, field

from protos.features import Feature
from protos.types import Role, Shape
from routing.transports.replica_tls import TlsFiles


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """What a replica at the address must be. `engine` chooses the transport (registry.py).

    `features` are assumed of an engine that does not report its own; a session's welcome overrides them.
    `settings` are those that the engine's transport documents. Empty `version` and `tokenizer_hash` match any.
    `tokenizer_hashes` are those of single versions, in place of `tokenizer_hash`.
    `host` is the name under which a replica was discovered whose address has none. `near`: whether it is in the
    gateway's zone, None: it is not known; one that changes that is the same replica. Of one
    `revision` are those whose KV caches fit together, as far as that is known.
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
    tokenizer_hashes: tuple[tuple[str, str], ...] = ()
    features: Feature = Feature.TOKENS
    tls: TlsFiles | None = None
    settings: object = None
    host: str = ""
    near: bool | None = field(default=None, compare=False)
    revision: str = field(default="", compare=False)

    @property
    def target(self) -> str:
        """Return the address in gRPC's notation."""
        return self.address.removeprefix("grpc://").removeprefix("grpcs://")
