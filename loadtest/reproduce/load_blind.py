"""DeepFlow's PD-aware policy as in its paper: the heatmap alone chooses pair or colocated, whatever the load."""

from collections.abc import Sequence

import msgspec

from protos.types import Load, Role
from routing.contracts.policy import Decision, ReplicaView, Report, RouteRequest, RoutingPolicy, Score


class LoadBlind:
    """Lets a policy choose the group as if all replicas were idle, then the replica in the group by actual load."""

    def __init__(self, policy: RoutingPolicy) -> None:
        self._policy = policy

    @property
    def uses_prefixes(self) -> bool:
        return self._policy.uses_prefixes

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Pick the group, then the replica. Raises NoCandidate."""
        return self._policy.pick(request, self._group(request, candidates))

    def observe(self, report: Report) -> None:
        self._policy.observe(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Return the scores in the chosen group."""
        return self._policy.explain(request, self._group(request, candidates))

    def _group(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[ReplicaView]:
        pair = self._policy.pick(request, [_idle(view) for view in candidates]).prefill is not None
        return [view for view in candidates if (view.role is not Role.BOTH) is pair]


def _idle(view: ReplicaView) -> ReplicaView:
    load = Load(0, 0, 0, view.load.kv_blocks_total, 0)
    return msgspec.structs.replace(view, load=load, sent=0, sent_prompt_tokens=0, sent_kv_tokens=0)
