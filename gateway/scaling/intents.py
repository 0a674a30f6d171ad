"""The replicas that the controller has asked launchers for, as records in the store.

An intent is written before its replica is started and removed after it is gone: a controller that takes over finds
every replica that may run, starts none twice, and forgets none.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from gateway.config.models.addresses import is_grpc_address, replica_name
from gateway.config.settings import Config
from gateway.fleets.drains import Drain
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.scaling.leasing.lease import Write
from gateway.scaling.status import PREFIX
from gateway.store.unreadable import UNREADABLE, readable
from gateway.tenancy.tenants.transactions import Storage
from protos.types import Role, Shape

#: A hash: replica id -> intent.
INTENTS: Final = f"{PREFIX}replicas"
#: A stream: intents that could not be read, as JSON of `SetAside`. Their replicas are taken over like ones of unknown
#: origin.
SET_ASIDE: Final = f"{PREFIX}set-aside"
#: How many of them it keeps at least, each of some hundred bytes; a hundred more at most.
MOST_SET_ASIDE: Final = 100
#: Who drains, as shown to operators.
ACTOR: Final = "scaling"


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that shall run, drain or end. Times are seconds since the epoch by the store's clock.

    `since` is when it came to its state. `seen`: its launcher has shown it; `ready`: it was ready once. `address` is
    empty while unknown. A replica that drains gets no more requests, and after `grace` seconds those that still run
    there go on elsewhere.
    """

    id: str
    model: str
    pool: str
    shape: Shape
    role: Role
    version: str
    spot: bool
    made: float
    state: Literal["run", "drain", "stop"] = "run"
    since: float = 0.0
    grace: float = 0.0
    seen: bool = False
    ready: bool = False
    address: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Model and pool."""
        return self.model, self.pool


_DECODER: Final = msgspec.json.Decoder(Intent)


class StoredIntents(msgspec.Struct):
    """All intents, in the order of their ids, and what is stored of those that cannot be read, by id as stored."""

    intents: list[Intent]
    unreadable: dict[bytes, bytes]


class SetAside(msgspec.Struct, frozen=True):
    """An unreadable intent: the replica id it was stored under, and its bytes as text, escaped where they are none."""

    id: str
    stored: str


def set_aside(unreadable: Mapping[bytes, bytes]) -> list[Write]:
    """Return the writes that take unreadable intents out of the way."""
    kept = (SetAside(*(part.decode("utf-8", "backslashreplace") for part in one)) for one in unreadable.items())
    writes = [Write("add", SET_ASIDE, str(MOST_SET_ASIDE), msgspec.json.encode(one)) for one in kept]
    return writes + [Write("put", INTENTS, id_, b"") for id_ in unreadable]


async def stored_intents(storage: Storage) -> StoredIntents:
    """Read all intents.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = StoredIntents([], {})
    for field, raw in sorted((await storage.hgetall(INTENTS)).items()):
        try:
            intent = _DECODER.decode(raw)
        except UNREADABLE:
            found.unreadable[field] = raw
            continue
        if intent.id.encode() == field:
            found.intents.append(intent)
        else:
            found.unreadable[field] = raw
    return found


async def read_intents(storage: Storage) -> list[Intent]:
    """All intents that can be read, in the order of their ids.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    return (await stored_intents(storage)).intents


def moved_by(seconds: float, intent: Intent) -> Intent:
    """Return an intent as of a clock that is set by so many seconds."""
    return msgspec.structs.replace(intent, made=intent.made + seconds, since=intent.since + seconds)


def drains_of_intents(intents: Iterable[Intent]) -> list[Drain]:
    """Return the drains of replicas that are to go."""
    return [
        Drain(
            model=intent.model,
            target=f"{intent.pool}/{replica_name(intent.address)}",
            since=intent.since,
            grace_seconds=intent.grace,
            actor=ACTOR,
        )
        for intent in intents
        # A replica registers itself under any address: one that is none would keep workers from all other drains.
        if intent.state != "run" and is_grpc_address(intent.address)
    ]


async def scaling_drains(storage: Storage) -> list[Drain]:
    """Read the drains of replicas that are to go; what cannot be read keeps nobody from the other drains.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    return drains_of_intents(readable((await storage.hgetall(INTENTS)).values(), _DECODER.decode))


def replica_registry(storage: Storage, config: Config) -> ReplicaRegistry:
    """Return the registry that shows replicas with these drains, where pools scale."""
    return ReplicaRegistry(storage, config, scaling_drains if config.scales else None)
