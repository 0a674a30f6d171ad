"""Pure: which replicas can do what a request needs of them, and what none of them can."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from protos.features import NAMES, Feature
from protos.types import Load, ReplicaInfo, Role, Shape
from routing.contracts.policy import ReplicaView
from routing.policies.adapter_affinity import AdapterRules

#: Every bit that has a meaning, from the lowest to the highest.
_BITS = tuple(feature.value for feature in NAMES)


class Known(Protocol):
    """What is known of a replica; `info` is None for one that has never been reached, and the view's features are what
    the configuration expects of its engine then.
    """

    @property
    def view(self) -> ReplicaView:
        """As decisions see it."""
        ...

    @property
    def info(self) -> ReplicaInfo | None:
        """What it says of itself."""
        ...


class _Expected:
    """A replica that a pool may come to have."""

    def __init__(self, pool: str, features: Feature) -> None:
        self.view = ReplicaView(pool, pool, Shape(), Role.BOTH, Load(), features=features.value)
        self.info = None


class Abilities:
    """Needs and adapters against the replicas of one model; `rules` are those of its adapters.

    `expected` are the features that a pool's replicas may have, which count while none of them is known.
    """

    def __init__(self, rules: AdapterRules | None = None, expected: Mapping[str, Feature] | None = None) -> None:
        self._rules = rules or AdapterRules()
        self._expected = [_Expected(pool, features) for pool, features in (expected or {}).items()]

    def can(self, replica: Known, needs: int, adapter: str) -> bool:
        """Whether a replica can take a request with these needs; one that was never reached is thought to."""
        if needs & ~replica.view.features:
            return False
        return not adapter or self._rules.runs(adapter, replica.view, replica.info)

    def lacks(self, replicas: Collection[Known], needs: int, adapter: str) -> list[Feature]:
        """What none of the replicas can do: one feature, or several that none has together; empty where one can do all.

        With an adapter that none has, it is LORA.
        """
        for replica in replicas:
            if self.can(replica, needs, adapter):
                return []
        pools = {replica.view.pool for replica in replicas}
        everyone = [*replicas, *(one for one in self._expected if one.view.pool not in pools)]
        able = [replica.view.features for replica in everyone if self.can(replica, 0, adapter)]
        return lacking(able, needs) if able or not adapter else [Feature.LORA]

    def why_not(self, replicas: Collection[Known], needs: int, adapter: str) -> dict[str, str]:
        """Why each of the replicas that cannot take such a request cannot, by its id."""
        found = {}
        for replica in replicas:
            absent = missing(replica.view.features, needs)
            if absent:
                found[replica.view.id] = "cannot do " + ", ".join(NAMES[feature] for feature in absent)
            elif not self.can(replica, needs, adapter):
                found[replica.view.id] = f"does not have the adapter {adapter}"
        return found


def known_adapters(replicas: Collection[Known]) -> frozenset[str]:
    """The LoRA adapters that any of the replicas serves by name."""
    infos = [replica.info for replica in replicas if replica.info is not None]
    return frozenset(name for info in infos for name in info.adapters)


def missing(features: int, needs: int) -> list[Feature]:
    """What of the needs is not among the features; empty where nothing is missing."""
    return [Feature(bit) for bit in _BITS if bit & needs & ~features]


def lacking(offers: Sequence[int], needs: int) -> list[Feature]:
    """A least part of the needs that none of the offers, each a replica's features, has whole; empty if one has all.

    It is one feature where nobody has that one, and several where each is there, but no replica has them together.
    """
    if any(not needs & ~offer for offer in offers):
        return []
    for bit in _BITS:
        rest = needs & ~bit
        if rest != needs and rest and not any(not rest & ~offer for offer in offers):
            needs = rest
    return missing(0, needs)
