"""What is proposed: models with their servers and shapes, tenants, and what is left out with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.scan.finding import Finding, Task
from gateway.scan.sizing.fit import Need, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What a model of one's own takes. `notes` say where each figure is from, and what is unknown."""

    need: Need
    quantisation: str
    notes: tuple[str, ...]
    #: Where the model fits among the GPUs that were given; None: nowhere, or not known.
    placed: Placement | None = None
    #: Shapes of the given kinds, and of other kinds where it fits on none of those.
    fitting: tuple[Placement, ...] = ()
    elsewhere: tuple[Placement, ...] = ()
    #: Tokens that the KV cache of `placed` has room for.
    kv_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedModel:
    """One model of the proposed file. `sizing` is None for a provider's."""

    name: str
    aliases: tuple[str, ...]
    task: Task
    provider: str
    engine: str
    #: Name of the model at its server, where that is another one.
    asked_as: str
    addresses: tuple[str, ...]
    #: The address is one of those that were found, not a place that is still to be filled.
    address_found: bool
    key_variable: str
    context: int
    context_note: str
    sizing: Sizing | None
    command: str
    findings: tuple[Finding, ...] = ()

    @property
    def hosted(self) -> bool:
        """Whether a provider serves it."""
        return self.sizing is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Everything that a configuration is written from."""

    models: tuple[ProposedModel, ...]
    #: Tenants by name, each with the names of the models that it uses.
    tenants: dict[str, tuple[str, ...]]
    #: Models that are not proposed: name, reason, findings.
    left_out: tuple[tuple[str, str, tuple[Finding, ...]], ...] = ()
    #: Variables that the gateway needs the values of.
    variables: tuple[str, ...] = ()
    notes: Sequence[str] = field(default_factory=tuple)
