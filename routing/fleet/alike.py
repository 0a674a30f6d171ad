"""Group the replicas of one model that are alike, and choose those of each group that serve."""

from collections.abc import Hashable, Iterable, Sequence

from protos.types import Role
from routing.transports.replica_connection import ReplicaConnection


def stand_in_key(connection: ReplicaConnection) -> tuple[Role, int]:
    """Return the key of replicas that can stand in for each other."""
    return (connection.spec.role, connection.marks)


def as_fast_as_each_other(connections: Iterable[ReplicaConnection]) -> list[list[str]]:
    """Return the ids of replicas by kinds that should be as fast as each other, but those whose shape is changing."""
    kinds: dict[Hashable, list[str]] = {}
    for connection in connections:
        if not connection.reshapes:
            key = (connection.spec.role, connection.marks, connection.view.shape)
            kinds.setdefault(key, []).append(connection.spec.id)
    return list(kinds.values())


def serving_of(able: Sequence[ReplicaConnection]) -> tuple[set[ReplicaConnection], set[ReplicaConnection]]:
    """Return the reachable replicas that serve, and those of them that only a part of the decisions may choose.

    Outliers serve where there are no others, and unproven ones where none is proven.
    """
    ready: set[ReplicaConnection] = set()
    returning: set[ReplicaConnection] = set()
    for group in {stand_in_key(c) for c in able}:
        fit = [c for c in able if c.health.serves and stand_in_key(c) == group]
        proven = [c for c in fit if c.health.proven or not c.health.prove_first]
        chosen = proven or fit or [c for c in able if c.health.is_outlier and stand_in_key(c) == group]
        slow = [c for c in chosen if c.health.ramp is not None]
        ready.update(chosen)
        if len(slow) < len(chosen):
            returning.update(slow)
    return ready, returning
