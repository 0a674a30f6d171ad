"""Any policy behind the pacing of `auto`, as a baseline: what is left between the two is what the ranking is worth.

The pacing (routing/estimates/pacing.py) decides which replicas may take a prompt now; the policy chooses among those as
if there were no others. A request that finds none waits, in the same queue as those of `auto`.
"""

from collections.abc import Sequence

from protos.types import Role
from routing.contracts.policy import (
    BetterWait,
    Decision,
    Left,
    ReplicaView,
    Report,
    RouteRequest,
    RoutingPolicy,
    Score,
    Stepped,
)
from routing.contracts.policy_settings import Targets
from routing.estimates.pacing import Pacing
from routing.estimates.replica_class import ReplicaClasses


class Paced:
    """Offers `policy` the candidates that keep the pace; all of them to a request that may not wait."""

    def __init__(self, policy: RoutingPolicy, targets: Targets) -> None:
        self._policy = policy
        self._pacing = Pacing(targets.tpot)
        self._classes = ReplicaClasses()

    @property
    def uses_prefixes(self) -> bool:
        return self._policy.uses_prefixes

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the policy's choice among the ready. Raises NoCandidate and BetterWait."""
        ready = self._ready(request, candidates)
        if ready:
            return self._policy.pick(request, ready)
        if request.may_wait:
            raise BetterWait
        return self._policy.pick(request, candidates)

    def observe(self, report: Report) -> None:
        """Learn step times and pace from the engines' steps; the policy learns what it does."""
        if isinstance(report, Stepped):
            self._classes.of(report.view).learn(report.work)
            self._pacing.stepped(report.view, report.work)
        elif isinstance(report, Left):
            self._classes.left(report.replica_id)
            self._pacing.left(report.replica_id)
        self._policy.observe(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        return self._policy.explain(request, self._ready(request, candidates) or candidates)

    def _ready(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[ReplicaView]:
        """Return the candidates that are ready, without the halves of pairs whose other half is not."""
        ready = [view for view in candidates if self._pacing.ready(view, self._classes.of(view), request)]
        roles = {view.role for view in ready}
        if Role.PREFILL in roles and Role.DECODE in roles:
            return ready
        return [view for view in ready if view.role is Role.BOTH]
