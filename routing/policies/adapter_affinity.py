"""Which replicas run a LoRA adapter: those that can, and of these preferably those that have it loaded.

A replica holds a few adapters at a time and loads another one in a fraction of a second to seconds, in which its
requests wait and some other adapter has to go. So each adapter is kept on as few replicas as its traffic allows. The
rule: a request goes where the adapter is loaded, unless every such replica is much busier than the least busy one;
then, and where it is loaded nowhere, it goes to the first replica that is not, in an order that is the adapter's own
(rendezvous hashing), so that all workers choose the same one and different adapters choose different ones.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import inf

import msgspec

from protos.types import ReplicaInfo, Role
from routing.contracts.policy import Decision, ReplicaView, Report, RouteRequest, RoutingPolicy, Score

#: A replica is much busier than another one with so many times the load per GPU, and so many sequences more.
SPILL_FACTOR, SPILL_SEQUENCES = 2.0, 8.0
#: What of prompts that are to be computed weighs as much as a sequence that decodes, in tokens.
PROMPT_TOKENS = 512
#: Why a candidate is left out.
ELSEWHERE = "the adapter is kept elsewhere"


class AdapterRule(msgspec.Struct, frozen=True):
    """What the configuration says of an adapter: where replicas find it, and which pools run it; empty `pools`: all.

    Without a `path` only replicas that know it by name can run it: those that say so, and those of the pools `trusted`,
    which cannot say anything.
    """

    path: str = ""
    pools: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()


_ANY = AdapterRule()


class AdapterRules:
    """The adapters of one model by name; those that are not listed are left to what replicas know by themselves."""

    def __init__(self, rules: Mapping[str, AdapterRule] | None = None) -> None:
        self._rules = rules or {}

    def runs(self, adapter: str, view: ReplicaView, info: ReplicaInfo | None) -> bool:
        """Whether a replica that can run adapters can run this one; without its info nobody knows, and it may."""
        rule = self._rules.get(adapter, _ANY)
        if rule.pools and view.pool not in rule.pools:
            return False
        if rule.path or view.pool in rule.trusted or info is None:
            return True
        return adapter in info.adapters or adapter in view.adapters


def preferred(views: Sequence[ReplicaView], adapter: str) -> Sequence[ReplicaView]:
    """Of replicas that can all run the adapter, those that had better do: at least one, if there is one.

    Prefill and decode replicas are chosen each among their own kind. Where either single replicas or pairs have the
    adapter loaded, and not both, the others are left out.
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
    bound = SPILL_FACTOR * min(_busyness(view) for view in views) + SPILL_SEQUENCES
    loaded = [view for view in views if adapter in view.adapters]
    quick = [view for view in loaded if _busyness(view) <= bound]
    if quick:
        return quick
    others = [view for view in views if adapter not in view.adapters and _busyness(view) <= bound]
    return [max(others, key=lambda view: _weight(adapter, view.id))]


def _any_has(views: Sequence[ReplicaView], adapter: str) -> bool:
    return any(adapter in view.adapters for view in views)


def _busyness(view: ReplicaView) -> float:
    """Sequences per GPU, prompts that are to be computed included; infinite without a free slot."""
    load = view.load
    sequences = load.running + load.waiting + view.sent
    if view.max_batch_size and sequences >= view.max_batch_size:
        return inf
    return (sequences + (load.prefill_tokens + view.sent_prompt_tokens) / PROMPT_TOKENS) / view.shape.gpus


@lru_cache(maxsize=65_536)
def _weight(adapter: str, replica_id: str) -> bytes:
    """A replica's place in the adapter's own order."""
    return blake2b(f"{adapter}\0{replica_id}".encode(), digest_size=8).digest()


class AdapterAffinity:
    """A policy of a model with adapters: as the given one, among the replicas that had better run the adapter."""

    def __init__(self, policy: RoutingPolicy) -> None:
        self._policy = policy

    @property
    def uses_prefixes(self) -> bool:
        """As the policy itself."""
        return self._policy.uses_prefixes

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """What the policy picks among those. Raises NoCandidate and BetterWait."""
        return self._policy.pick(request, preferred(candidates, request.adapter) if request.adapter else candidates)

    def observe(self, report: Report) -> None:
        """As the policy itself."""
        self._policy.observe(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """What the policy would weigh, and after it the replicas that it is not asked about."""
        if not request.adapter:
            return self._policy.explain(request, candidates)
        near = preferred(candidates, request.adapter)
        scores = self._policy.explain(request, near)
        asked = {view.id for view in near}
        rest = [view for view in candidates if view.id not in asked and view.role is not Role.PREFILL]
        return [*scores, *(Score(view.id, None, inf, excluded=ELSEWHERE) for view in rest)]
