"""The seam of routing decisions: pure functions over a snapshot of replicas."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from protos.types import Load, Role, Shape


class ReplicaView(msgspec.Struct, frozen=True):
    """One replica as a decision sees it.

    `load` is the engine's last report and covers all workers. What this worker sent and no report includes yet comes
    on top: `sent` sequences, their prompts, and the tokens that the KV cache will hold for them. Of the sizes, 0 means
    that it is not known.
    """

    id: str
    pool: str
    shape: Shape
    role: Role
    load: Load
    sent: int = 0
    sent_prompt_tokens: int = 0
    sent_kv_tokens: int = 0
    max_batch_size: int = 0
    kv_block_tokens: int = 0
    max_num_tokens: int = 0
    reserves_output: bool = False


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
