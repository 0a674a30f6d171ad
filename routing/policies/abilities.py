"""Pure: matches the features that requests need with those that replicas offer."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from protos.features import NAMES, Feature
from protos.types import Load, ReplicaInfo, Role, Shape
from routing.contracts.policy import ReplicaView
from routing.contracts.versions import VERSIONS, VersionBits
from routing.policies.adapter_affinity import AdapterRules

#: All feature bits, from the lowest to the highest.
_BITS = tuple(feature.value for feature in NAMES)


class Known(Protocol):
    """A replica's view and self-description. `info` is None for one that was never reached; its view then has the
    features that the configuration expects of its engine.
    """

    @property
    def view(self) -> ReplicaView:
        """The view that decisions see."""
        ...

    @property
    def info(self) -> ReplicaInfo | None:
        """The replica's own description."""
        ...


class _Expected:
    """A replica that a pool may get later."""

    def __init__(self, pool: str, features: Feature) -> None:
        self.view = ReplicaView(pool, pool, Shape(), Role.BOTH, Load(), features=features.value)
        self.info = None


class Abilities:
    """Matches needs and adapters with the replicas of one model; `rules` are its adapters'.

    `expected` are the features of pools' future replicas, used while none of a pool is known; `versions` are the
    model's, where its requests go by version.
    """

    def __init__(
        self,
        rules: AdapterRules | None = None,
        expected: Mapping[str, Feature] | None = None,
        versions: VersionBits | None = None,
    ) -> None:
        self._rules = rules or AdapterRules()
        self._versions = versions or VersionBits()
        self._expected = [_Expected(pool, features) for pool, features in (expected or {}).items()]

    def can(self, replica: Known, needs: int, adapter: str) -> bool:
        """Whether a replica can take a request with these needs; assumed of one that was never reached."""
        if needs & ~replica.view.features:
            return False
        return not adapter or self._rules.runs(adapter, replica.view, replica.info)

    def lacks(self, replicas: Collection[Known], needs: int, adapter: str) -> list[Feature]:
        """Return what no replica offers: one feature, or several that none offers together; empty where one offers all.

        For an adapter that none runs, it is LORA.
        """
        for replica in replicas:
            if self.can(replica, needs, adapter) if adapter else not needs & ~replica.view.features:
                return []
        pools = {replica.view.pool for replica in replicas}
        everyone = [*replicas, *(one for one in self._expected if one.view.pool not in pools)]
        able = [replica.view.features for replica in everyone if self.can(replica, 0, adapter)]
        return lacking(able, needs) if able or not adapter else [Feature.LORA]

    def why_not(self, replicas: Collection[Known], needs: int, adapter: str) -> dict[str, str]:
        """Return why each replica that cannot take such a request cannot, by id."""
        found = {}
        for replica in replicas:
            absent = missing(replica.view.features, needs)
            if needs & VERSIONS & ~replica.view.features:
                found[replica.view.id] = self._of_other_version(replica.view.features, needs)
            elif absent:
                found[replica.view.id] = "cannot do " + ", ".join(NAMES[feature] for feature in absent)
            elif not self.can(replica, needs, adapter):
                found[replica.view.id] = f"does not have the adapter {adapter}"
        return found

    def _of_other_version(self, features: int, needs: int) -> str:
        own, wanted = self._versions.name(features), self._versions.name(needs)
        return f"is of version {own}, the request of {wanted}" if own else "does not say its version"


def known_adapters(replicas: Collection[Known]) -> frozenset[str]:
    """Return the LoRA adapters that any of the replicas serves by name."""
    infos = [replica.info for replica in replicas if replica.info is not None]
    return frozenset(name for info in infos for name in info.adapters)


def missing(features: int, needs: int) -> list[Feature]:
    """Return the needs that are not among the features."""
    return [Feature(bit) for bit in _BITS if bit & needs & ~features]


def lacking(offers: Sequence[int], needs: int) -> list[Feature]:
    """Return a smallest subset of the needs that no offer (a replica's features) covers; empty if one covers all.

    It is one feature where none has it, and several where each is offered but never together.
    """
    if any(not needs & ~offer for offer in offers):
        return []
    for bit in _BITS:
        rest = needs & ~bit
        if rest != needs and rest and not any(not rest & ~offer for offer in offers):
            needs = rest
    return missing(0, needs)
