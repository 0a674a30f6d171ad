"""Atomic reads and optimistic transactions on the store's records of tenants and keys, which share one cluster slot.

A transaction states the values that it was made from; the store applies it as a whole or, if one of them has changed,
not at all. The caller then starts again from fresh values.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

from gateway.store.lua_script import Script
from protos.errors import Conflict

# The braces are a hash tag: in a cluster all keys share one slot, so that one script may touch them.
_PREFIX: Final = "penstock:{keys}:"
#: The version: it differs after every change. A counter could repeat one after the store lost its last second; 128
#: random bits do not.
VERSION: Final = f"{_PREFIX}version"
#: A stream: the audit trail.
AUDIT: Final = f"{_PREFIX}audit"
#: A hash: key id -> digest of its secret.
INDEX: Final = f"{_PREFIX}index"
#: A hash: tenant and key name -> id of the key that holds the name.
NAMES: Final = f"{_PREFIX}names"
#: A hash: tenant name -> record.
TENANTS: Final = f"{_PREFIX}tenants"
#: A hash: model and replica or pool -> drain. It is here so that drains are in the audit trail.
DRAINS: Final = f"{_PREFIX}drains"
#: A hash: provider key name -> record, encrypted. It is here so that changes are in the audit trail.
PROVIDERS: Final = f"{_PREFIX}providers"
#: A hash: model -> what operators have set about its scaling. It is here so that changes are in the audit trail.
SCALING: Final = f"{_PREFIX}scaling"
#: A hash: model -> the last order for a rollout. It is here so that orders are in the audit trail.
ROLLOUT_ORDERS: Final = f"{_PREFIX}rollouts"
#: A hash: model and group -> the last order for its shape. It is here so that orders are in the audit trail.
RESHAPE_ORDERS: Final = f"{_PREFIX}reshape"
#: Prefix of a key's record; the digest follows.
RECORD: Final = f"{_PREFIX}key:"

# An entry is about a kilobyte, and the embedded store has 128 MB for everything.
_AUDIT_ENTRIES: Final = 20_000
_MOST_ATTEMPTS: Final = 50

_READ = Script.load("gateway.tenancy.tenants", "lua/read.lua")
_COMMIT = Script.load("gateway.tenancy.tenants", "lua/commit.lua")

T = TypeVar("T")


class Storage(Protocol):
    """The store operations for tenants and keys; both raise StoreUnavailable."""

    async def hgetall(self, key: str) -> dict[bytes, bytes]: ...

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object: ...


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value: a field of a hash, or a plain value if `field` is empty."""

    key: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A value that a transaction expects, and the one that it writes; empty is absent."""

    place: Place
    expected: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """An audit entry; `before` and `after` are JSON without secrets, or empty."""

    actor: str
    action: str
    subject: str
    before: bytes = b""
    after: bytes = b""


async def read(storage: Storage, places: Sequence[Place]) -> tuple[float, list[bytes]]:
    """Read the store's time, in seconds since the epoch, and the values at some places, empty if absent.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    reply = await storage.run(_READ, [place.key for place in places], [place.field for place in places])
    time, *values = cast("list[bytes]", reply)
    return float(time), values


async def commit(storage: Storage, steps: Sequence[Step], entry: Entry) -> bool:
    """Commit a change with its audit entry; False, without any change, if an expected value has changed.

    Raises:
        StoreUnavailable: The store did not answer; the change may have been made.
    """
    keys = [VERSION, AUDIT, *(step.place.key for step in steps)]
    arguments: list[str | bytes] = [secrets.token_hex(16), str(_AUDIT_ENTRIES)]
    arguments += [entry.actor, entry.action, entry.subject, entry.before, entry.after]
    for step in steps:
        arguments += [step.place.field, step.expected, step.value]
    return await storage.run(_COMMIT, keys, arguments) == 1


async def until_committed(attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Retry `attempt` with fresh values while it returns None, which means that others changed the values first.

    Raises:
        Conflict: Others always came first.
    """
    for _ in range(_MOST_ATTEMPTS):
        done = await attempt()
        if done is not None:
            return done
    raise Conflict("Others keep changing the same record. Try again.")
