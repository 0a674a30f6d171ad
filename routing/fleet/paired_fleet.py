"""The fleet of a model with pairs of prefill and decode replicas, whose requests do not go by version."""

from collections import Counter
from collections.abc import Mapping

from protos.types import Role
from routing.fleet.fleet import Fleet
from routing.transports.replica_connection import ReplicaConnection


class PairedFleet(Fleet):
    """A fleet that pairs no prefill with a decode replica of another version, whose KV cache it may not understand.

    While replicas are changed for others, those halves of pairs serve of whose version there are most whole pairs; of
    two with as many, those of the one that serves already.
    """

    _paired = ""

    def _serving(
        self, ready: tuple[ReplicaConnection, ...]
    ) -> tuple[tuple[ReplicaConnection, ...], tuple[ReplicaConnection, ...]]:
        halves: Counter[tuple[str, Role]] = Counter(
            (c.version, c.spec.role) for c in ready if c.version and c.spec.role is not Role.BOTH
        )
        versions = {version for version, _ in halves}
        if len(versions) > 1:
            # A replica that does not say its version is taken for one of any.
            kept = self._paired = max(versions, key=lambda version: (_pairs(halves, version), version == self._paired))
            ready = tuple(c for c in ready if c.spec.role is Role.BOTH or c.version in ("", kept))
        elif versions:
            self._paired = versions.pop()
        return ready, ready


def _pairs(halves: Mapping[tuple[str, Role], int], version: str) -> int:
    return min(halves[version, Role.PREFILL], halves[version, Role.DECODE])
