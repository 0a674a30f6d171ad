"""Registrations of replicas in the store; each expires unless its replica repeats it."""

from typing import Final, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage
from protos.launch_step import LaunchStep
from protos.types import Role, Shape

#: Lifetime of a registration by the store's clock, and the interval between repetitions, in seconds.
RECORD_SECONDS: Final = 2.0
HEARTBEAT_SECONDS: Final = 0.5
# One hash tag for both keys, which one script touches.
_KEYS: Final = ("penstock:{replicas}:seen", "penstock:{replicas}:registered")
#: Where it is announced in the store that a registration has come, changed or gone, for those who do not wait to look.
CHANGES: Final = "penstock:{replicas}:changed"
_SCRIPT: Final = Script.load("gateway.fleets.discovery", "registrations.lua")


class Registration(msgspec.Struct, frozen=True):
    """One replica's registration. `epoch` distinguishes its process from earlier ones at the address.

    `launch_id` is the id under which a launcher has started it; empty: it was started otherwise. Until `step` is
    `ready` it may not listen yet, and what is known only once its engine is loaded is empty; so is `start_seconds`,
    the time that each step of its start has taken.
    """

    model: str
    pool: str
    address: str
    epoch: int
    engine: str
    shape: Shape
    role: Role
    version: str = ""
    tokenizer_hash: str = ""
    adapters: tuple[str, ...] = ()
    launch_id: str = ""
    step: LaunchStep = LaunchStep.READY
    start_seconds: dict[str, float] = {}

    @property
    def key(self) -> str:
        """The registration's field in the store."""
        return f"{self.model} {self.pool} {self.address}"


_DECODER: Final = msgspec.json.Decoder(Registration)


async def register(storage: Storage, replica: Registration) -> bool:
    """Register a replica. False: a process that started later has the address.

    Raises:
        StoreUnavailable: The store did not answer; it may have been told.
    """
    return await _send(storage, "put", replica)


async def deregister(storage: Storage, replica: Registration) -> bool:
    """Remove a registration. False: a process that started later has the address.

    Raises:
        StoreUnavailable: The store did not answer; it may have been told.
    """
    return await _send(storage, "drop", replica)


async def registered(storage: Storage) -> list[Registration]:
    """All unexpired registrations; records of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = cast("list[bytes]", await storage.run(_SCRIPT, _KEYS, [str(RECORD_SECONDS), "all"]))
    return sorted(readable(found, _DECODER.decode), key=lambda replica: replica.key)


async def _send(storage: Storage, what: str, replica: Registration) -> bool:
    epoch, record = f"{replica.epoch:020}", msgspec.json.encode(replica)
    arguments: list[str | bytes] = [str(RECORD_SECONDS), what, replica.key, epoch, record, CHANGES]
    return await storage.run(_SCRIPT, _KEYS, arguments) == 1
