"""Pure: which replicas a fleet should have and which are leaving; the fleet acts on it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from routing.policies.zone_affinity import Zones
from routing.transports.replica_spec import ReplicaSpec

#: Seconds for which streams at a replica that is no longer wanted may go on there before they are moved.
LEAVE_SECONDS: Final = 30.0


class WantedReplicas:
    """The wanted replicas by id. A leaving one keeps its id until it is gone, and may be wanted again meanwhile.

    All times are seconds of one clock.
    """

    def __init__(self, specs: Iterable[ReplicaSpec]) -> None:
        self._wanted = {spec.id: spec for spec in specs}
        self.zones = _zones(self._wanted.values())
        self._until: dict[str, float] = {}
        self._ending: set[str] = set()

    @property
    def leaving(self) -> Mapping[str, float]:
        """Leaving replicas -> when the streams still open there are to be moved."""
        return self._until

    def want(self, specs: Iterable[ReplicaSpec], present: Mapping[str, ReplicaSpec], now: float) -> None:
        """Set the wanted replicas; `present` are those that the fleet has, leaving ones included.

        A replica whose spec changed under the same id leaves at once and joins again with the new spec.
        """
        self._wanted = {spec.id: spec for spec in specs}
        self.zones = _zones(self._wanted.values())
        until = {}
        for id_, spec in present.items():
            wanted = self._wanted.get(id_)
            if wanted is None:
                until[id_] = self._until.get(id_, now + LEAVE_SECONDS)
            elif wanted != spec:
                until[id_] = now
        self._until = until

    def missing(self, present: Mapping[str, object]) -> list[ReplicaSpec]:
        """Return the replicas that are wanted and neither present nor being closed."""
        return [spec for id_, spec in self._wanted.items() if id_ not in present and id_ not in self._ending]

    def ends(self, replica_id: str) -> None:
        """Note that a leaving replica is no longer present and is being closed."""
        del self._until[replica_id]
        self._ending.add(replica_id)

    def ended(self, replica_id: str) -> None:
        """Note that the replica is closed."""
        self._ending.discard(replica_id)


def _zones(specs: Collection[ReplicaSpec]) -> Zones:
    near = frozenset(spec.id for spec in specs if spec.near)
    return Zones(near, frozenset(spec.id for spec in specs if spec.near is False))
