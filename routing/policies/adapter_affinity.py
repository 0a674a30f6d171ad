"""Adapter affinity: a LoRA adapter's requests go to replicas that can run it, preferably where it is loaded.

A replica holds a few adapters at a time. Loading another takes a fraction of a second to seconds, in which its requests
wait, and evicts one. So each adapter stays on as few replicas as its traffic allows. The rule: a request goes where the
adapter is loaded, unless every such replica is much busier than the least busy one; then, and where it is loaded
nowhere, it goes to the first replica that is not much busier, in the adapter's own order (rendezvous hashing), so that
all workers choose the same replica and different adapters choose different ones.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from protos.types import ReplicaInfo, Role
from routing.contracts.policy import (
    ReplicaView,
    RouteRequest,
    RoutingPolicy,
)
from routing.policies.busyness import busyness, spill_bound
from routing.policies.narrowed_policy import NarrowedPolicy

#: The reason shown for candidates that are left out.
ELSEWHERE = "the adapter is kept elsewhere"


class AdapterRule(msgspec.Struct, frozen=True):
    """The configuration of an adapter: the path on replicas, and the pools that run it; empty `pools`: all.

    Without a `path` only replicas that know it by name can run it: those that report it, and those of the `trusted`
    pools, which report nothing.
    """

    path: str = ""
    pools: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()


_ANY = AdapterRule()


class AdapterRules:
    """The rules of one model's adapters by name; unlisted adapters run on replicas that report them."""

    def __init__(self, rules: Mapping[str, AdapterRule] | None = None) -> None:
        self._rules = rules or {}

    def runs(self, adapter: str, view: ReplicaView, info: ReplicaInfo | None) -> bool:
        """Whether a replica that can run adapters can run this one; assumed while its info is unknown."""
        rule = self._rules.get(adapter, _ANY)
        if rule.pools and view.pool not in rule.pools:
            return False
        if rule.path or view.pool in rule.trusted or info is None:
            return True
        return adapter in info.adapters or adapter in view.adapters


def preferred(views: Sequence[ReplicaView], adapter: str) -> Sequence[ReplicaView]:
    """Return the preferred ones of replicas that can all run the adapter: at least one, if there is any.

    Prefill and decode replicas are each chosen among their own role. Where only single replicas, or only pairs, have
    the adapter loaded, the others are left out.
    """
    roles = {view.role for view in views}
    if roles == {Role.BOTH}:
        return _nearest(views, adapter)
    single, prefill, decode = (
        _nearest([view for view in views if view.role is role], adapter)
        for role in (Role.BOTH, Role.PREFILL, Role.DECODE)
    )
    if not prefill or not decode:
        return single or views
    single_has = _any_has(single, adapter)
    pair_has = _any_has(prefill, adapter) and _any_has(decode, adapter)
    if single_has and not pair_has:
        return single
    pair = [*prefill, *decode]
    return pair if pair_has and not single_has else [*single, *pair]


def _nearest(views: Sequence[ReplicaView], adapter: str) -> Sequence[ReplicaView]:
    if len(views) < 2:
        return views
    bound = spill_bound(views)
    loaded = [view for view in views if adapter in view.adapters]
    quick = [view for view in loaded if busyness(view) <= bound]
    if quick:
        return quick
    others = [view for view in views if adapter not in view.adapters and busyness(view) <= bound]
    return [max(others, key=lambda view: _weight(adapter, view.id))]


def _any_has(views: Sequence[ReplicaView], adapter: str) -> bool:
    return any(adapter in view.adapters for view in views)


@lru_cache(maxsize=65_536)
def _weight(adapter: str, replica_id: str) -> bytes:
    """Return the sort key of a replica in the adapter's own order."""
    return blake2b(f"{adapter}\0{replica_id}".encode(), digest_size=8).digest()


class AdapterAffinity(NarrowedPolicy):
    """Wraps the policy of a model with adapters: passes it only the replicas preferred for the adapter."""

    def __init__(self, policy: RoutingPolicy) -> None:
        super().__init__(policy, ELSEWHERE)

    def _near(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Sequence[ReplicaView]:
        return preferred(candidates, request.adapter) if request.adapter else candidates
