"""Reading and changing what the store holds of tenants and keys, which lies in one slot so that it stays of a piece.

A change is optimistic: it says what it was made from, and the store applies it whole or, where something is different
by now, not at all. Whoever made it then starts again from fresh values.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

from gateway.store.lua_script import Script
from protos.errors import Conflict

# The braces are a hash tag: in a cluster all of it lies in one slot, so that one script may touch it.
_PREFIX: Final = "penstock:{keys}:"
#: A value that differs after every change. A counter could repeat one after the store lost its last second; 128
#: random bits do not.
VERSION: Final = f"{_PREFIX}version"
#: A stream of what was changed.
AUDIT: Final = f"{_PREFIX}audit"
#: A hash: id of a key -> digest of its secret.
INDEX: Final = f"{_PREFIX}index"
#: A hash: tenant and name of a key -> id of the key that holds the name.
NAMES: Final = f"{_PREFIX}names"
#: A hash: name of a tenant -> its record.
TENANTS: Final = f"{_PREFIX}tenants"
#: A hash: model and replica or pool -> what operators drain. It is here for the audit trail's sake.
DRAINS: Final = f"{_PREFIX}drains"
#: A hash: name of a provider's key -> its record, encrypted. It is here for the audit trail's sake too.
PROVIDERS: Final = f"{_PREFIX}providers"
#: With a digest behind it: the record of one key.
RECORD: Final = f"{_PREFIX}key:"

# An entry is about a kilobyte, and the embedded store has 128 MB for everything.
_AUDIT_ENTRIES: Final = 20_000
_MOST_ATTEMPTS: Final = 50

_READ = Script.load("gateway.tenancy.tenants", "lua/read.lua")
_COMMIT = Script.load("gateway.tenancy.tenants", "lua/commit.lua")

T = TypeVar("T")


class Storage(Protocol):
    """What tenants and keys need of a store; both raise StoreUnavailable."""

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """All fields of a hash; empty where there is none."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and give its reply."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lies: a field of a hash, or a plain value where `field` is empty."""

    key: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A value that a change needs to find, and the one that it leaves there; empty is none."""

    place: Place
    expected: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What the audit trail shall say of a change; `before` and `after` are JSON, without any secret, or empty."""

    actor: str
    action: str
    subject: str
    before: bytes = b""
    after: bytes = b""


async def read(storage: Storage, places: Sequence[Place]) -> tuple[float, list[bytes]]:
    """The store's time, in seconds since the epoch, and the values at some places, empty where there is none.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    reply = await storage.run(_READ, [place.key for place in places], [place.field for place in places])
    time, *values = cast("list[bytes]", reply)
    return float(time), values


async def commit(storage: Storage, steps: Sequence[Step], entry: Entry) -> bool:
    """Apply a change with its audit entry; gives False, and has changed nothing, where an expected value is not there.

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
    """Make a change again from fresh values for as long as others come first: `attempt` gives None then.

    Raises:
        Conflict: Others always came first.
    """
    for _ in range(_MOST_ATTEMPTS):
        done = await attempt()
        if done is not None:
            return done
    raise Conflict("Others keep changing the same record. Try again.")
