"""Drains of replicas and pools, as records in the store."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.fleets.configured import ConfiguredReplica
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import DRAINS, Place
from protos.errors import StoreUnavailable

GRACE_SECONDS: Final = 30.0
LONGEST_GRACE_SECONDS: Final = 86_400.0


class Drain(Record, frozen=True, kw_only=True):
    """A drained replica or pool, which gets no new requests."""

    model: str
    target: Annotated[str, Meta(description="A replica, as `narrow/0`, or a pool, as `narrow`.")]
    since: Annotated[float, Meta(description="By the store's clock, in seconds since 1970.")]
    grace_seconds: Annotated[
        float, Meta(description="After so long, requests that still run there go on at other replicas.")
    ]
    actor: Annotated[str, Meta(description="Who asked for it.")]

    def covers(self, replica: ConfiguredReplica) -> bool:
        """Whether the drain is of this replica or of its pool."""
        return self.model == replica.model and self.target in (replica.id, replica.pool)


def place_of(model: str, target: str) -> Place:
    """The place of a drain's record. Neither name contains a space."""
    return Place(DRAINS, f"{model} {target}")


def drains_of(stored: Mapping[bytes, bytes]) -> list[Drain]:
    """Decode the drains of the store's hash, in the order of model and target.

    Raises:
        StoreUnavailable: One of them cannot be read.
    """
    try:
        found = [msgspec.json.decode(raw, type=Drain) for raw in stored.values()]
    except UNREADABLE as error:
        raise StoreUnavailable("The gateway's store holds a drain that cannot be read.") from error
    return sorted(found, key=lambda drain: (drain.model, drain.target))


def grace_ends(drains: Iterable[Drain], replicas: Iterable[ConfiguredReplica]) -> dict[tuple[str, str], float]:
    """The end of each drained replica's grace period, by model and id, on the store's clock."""
    found: dict[tuple[str, str], float] = {}
    for drain in drains:
        for replica in replicas:
            if drain.covers(replica):
                name, end = (replica.model, replica.id), drain.since + drain.grace_seconds
                found[name] = min(end, found.get(name, end))
    return found
