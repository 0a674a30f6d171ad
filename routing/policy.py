"""The seam of routing decisions: pure functions over a snapshot of replicas."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from protos.types import Load, Role, Shape


class ReplicaView(msgspec.Struct, frozen=True):
    """One replica as a decision sees it.

    `load` is the engine's last report and covers all workers; `sent` counts this worker's requests since then.
    """

    id: str
    pool: str
    shape: Shape
    role: Role
    load: Load
    sent: int


class RouteRequest(msgspec.Struct, frozen=True):
    """What a decision may know of a request."""

    request_id: str
    prompt_tokens: int
    max_tokens: int


class Decision(msgspec.Struct, frozen=True):
    """The chosen replica."""

    replica: ReplicaView


class RoutingPolicy(Protocol):
    """Picks where a request goes."""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Choose among at least one candidate; never awaits, never reads a clock."""
        ...
