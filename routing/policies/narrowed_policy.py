"""The base of policies that wrap another one and pass it a part of the candidates alone."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf

from protos.types import Role
from routing.contracts.policy import Decision, ReplicaView, RouteRequest, RoutingPolicy, Score, learns_from_ends


class NarrowedPolicy(ABC):
    """A `RoutingPolicy` that learns as the wrapped one does."""

    def __init__(self, policy: RoutingPolicy, elsewhere: str) -> None:
        """`elsewhere` is why a candidate is not passed on, for explanations."""
        self._policy = policy
        self._elsewhere = elsewhere
        # The policy's own method, by which it is known whether it learns.
        self.observe = policy.observe

    @abstractmethod
    def _near(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Sequence[ReplicaView]:
        """Return the candidates that are passed on: at least one, if there is any."""

    @property
    def uses_prefixes(self) -> bool:
        return self._policy.uses_prefixes

    @property
    def steps_suffice(self) -> bool:
        """Whether the policy does nothing with the ends of requests to replicas whose engines report their steps."""
        return not learns_from_ends(self._policy)

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Pick among what is passed on. Raises NoCandidate and BetterWait."""
        return self._policy.pick(request, self._near(request, candidates))

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Return the policy's scores, then the replicas that are not passed to it."""
        near = self._near(request, candidates)
        scores = self._policy.explain(request, near)
        asked = {view.id for view in near}
        rest = [view for view in candidates if view.id not in asked and view.role is not Role.PREFILL]
        return [*scores, *(Score(view.id, None, inf, excluded=self._elsewhere) for view in rest)]
