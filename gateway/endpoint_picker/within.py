"""A policy that chooses among some endpoints only, for one request."""

from collections.abc import Mapping, Sequence

from routing.contracts.policy import Decision, NoCandidate, ReplicaView, Report, RouteRequest, RoutingPolicy, Score


class Within:
    """Another policy, kept to the endpoints of a subset (`IP:PORT`)."""

    def __init__(self, policy: RoutingPolicy, subset: frozenset[str], endpoints: Mapping[str, str]) -> None:
        """`endpoints` are by replica id."""
        self._policy = policy
        self._subset = subset
        self._endpoints = endpoints

    @property
    def uses_prefixes(self) -> bool:
        return self._policy.uses_prefixes

    def inside(self, views: Sequence[ReplicaView]) -> list[ReplicaView]:
        """Return the views whose endpoints are in the subset."""
        return [view for view in views if self._endpoints.get(view.id) in self._subset]

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Pick among the subset. Raises NoCandidate and BetterWait."""
        inside = self.inside(candidates)
        if not inside:
            raise NoCandidate("none of the candidates is in the proxy's subset")
        return self._policy.pick(request, inside)

    def observe(self, report: Report) -> None:
        """Pass a report on."""
        self._policy.observe(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Score the subset."""
        return self._policy.explain(request, self.inside(candidates))
