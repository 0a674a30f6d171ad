"""The seam of routing decisions: pure functions over a snapshot of replicas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from protos.types import Load, Role, Shape


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica as a decision sees it.

    `load` is the engine's last report and covers all workers; `sent` counts this worker's requests since then.
    """

    id: str
    pool: str
    shape: Shape
    role: Role
    load: Load
    sent: int


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """What a decision may know of a request."""

    request_id: str
    prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen replica."""

    replica: ReplicaView


class RoutingPolicy(Protocol):
    """Picks where a request goes."""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Choose among at least one candidate; never awaits, never reads a clock."""
        ...
