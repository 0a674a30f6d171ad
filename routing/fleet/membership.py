"""Which replicas a fleet is to have, and which are on their way out. Pure: the fleet does what comes of it."""

from collections.abc import Iterable, Mapping
from typing import Final

from routing.transports.replica_spec import ReplicaSpec

#: How long what runs at a replica that is no longer wanted may go on there before it goes on at another.
LEAVE_SECONDS: Final = 30.0


class Membership:
    """Replicas by id. One that leaves keeps its id until it is gone, and may be wanted again meanwhile.

    Its times are seconds of one clock.
    """

    def __init__(self, specs: Iterable[ReplicaSpec]) -> None:
        self._wanted = {spec.id: spec for spec in specs}
        self._until: dict[str, float] = {}
        self._ending: set[str] = set()

    @property
    def leaving(self) -> Mapping[str, float]:
        """Those on their way out -> when what still runs there is to go elsewhere."""
        return self._until

    def want(self, specs: Iterable[ReplicaSpec], present: Mapping[str, ReplicaSpec], now: float) -> None:
        """From now on these replicas are wanted; `present` are those that the fleet has, leaving ones included.

        One that has become another under the same id leaves at once, to come back as what it is.
        """
        self._wanted = {spec.id: spec for spec in specs}
        until = {}
        for id_, spec in present.items():
            wanted = self._wanted.get(id_)
            if wanted is None:
                until[id_] = self._until.get(id_, now + LEAVE_SECONDS)
            elif wanted != spec:
                until[id_] = now
        self._until = until

    def missing(self, present: Mapping[str, object]) -> list[ReplicaSpec]:
        """What is wanted and neither there nor still ending."""
        return [spec for id_, spec in self._wanted.items() if id_ not in present and id_ not in self._ending]

    def ends(self, replica_id: str) -> None:
        """A replica that was leaving is no longer among those present, and is being closed."""
        del self._until[replica_id]
        self._ending.add(replica_id)

    def ended(self, replica_id: str) -> None:
        """It is closed."""
        self._ending.discard(replica_id)
