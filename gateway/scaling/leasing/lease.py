"""The lease of the one controller that acts, with a fencing token that guards every write.

A holder renews its lease each second. It stops acting `HELD_SECONDS` after the beginning of its last renewal that
succeeded, which is before the store lets another one in.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec

from gateway.scaling.status import PREFIX
from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import Storage

#: Seconds after the last renewal until the store lets another controller in, and until the holder acts no more.
LEASE_SECONDS: Final = 6.0
HELD_SECONDS: Final = 4.0
RENEW_SECONDS: Final = 1.0

_SCRIPT: Final = Script.load("gateway.scaling", "lua/lease.lua")
_WRITE: Final = Script.load("gateway.scaling", "lua/write.lua")


class LeaseLost(Exception):
    """Another controller acts, or nobody knows: nothing was written, and nothing may be done."""


class Write(msgspec.Struct, frozen=True):
    """One write: `put` a field of a hash (an empty value removes it), `set` a plain value, `add` to a stream, or `tell`
    a channel.

    `field` of `add` is how many entries are kept.
    """

    what: str
    key: str
    field: str | bytes
    value: bytes


class Holder(msgspec.Struct, frozen=True):
    """Who holds the lease; `since` by the store's clock."""

    name: str
    token: int
    since: float


class Lease:
    """One controller's side of the lease."""

    def __init__(
        self, storage: Storage, name: str, clock: Callable[[], float] = time.monotonic, prefix: str = PREFIX
    ) -> None:
        """`name` is shown to operators; `clock` never goes back. The lease's keys begin with `prefix`."""
        self._storage = storage
        self._name = name
        self._clock = clock
        self._keys = (f"{prefix}lease", f"{prefix}token")
        self._mine: Holder | None = None
        self._until = 0.0
        #: Whoever held it when the store was last asked; None: nobody.
        self.holder: Holder | None = None

    @property
    def held(self) -> Holder | None:
        """This controller's hold, while it may act; None otherwise."""
        return self._mine if self._clock() < self._until else None

    async def renew(self) -> Holder | None:
        """Take the lease or keep it; returns this controller's hold, None where another one has it.

        Raises:
            StoreUnavailable: The store did not answer; what is held lasts until its time is over.
        """
        begun = self._clock()
        mine = self._mine
        if mine is not None:
            holder = await self._ask("keep", str(mine.token))
            if holder is not None and holder.token == mine.token:
                self.holder, self._until = holder, begun + HELD_SECONDS
                return mine
            self._mine, self._until = None, 0.0
        holder = self.holder = await self._ask("take", "")
        if holder is not None and holder.name == self._name:
            self._mine, self._until = holder, begun + HELD_SECONDS
        return self.held

    async def leave(self) -> None:
        """Give the lease up, so that another controller need not wait.

        Raises:
            StoreUnavailable: The store did not answer; the lease ends by itself.
        """
        mine, self._mine, self._until = self._mine, None, 0.0
        if mine is not None:
            self.holder = await self._ask("leave", str(mine.token))

    async def write(self, writes: Sequence[Write]) -> None:
        """Write all or nothing.

        Raises:
            LeaseLost: This controller does not hold the lease.
            StoreUnavailable: The store did not answer; it may have been written.
        """
        mine = self.held
        if mine is None:
            raise LeaseLost
        arguments: list[str | bytes] = [str(mine.token)]
        for write in writes:
            arguments += [write.what, write.field, write.value]
        if await self._storage.run(_WRITE, [self._keys[0], *(write.key for write in writes)], arguments) != 1:
            self._mine, self._until = None, 0.0
            raise LeaseLost

    async def _ask(self, what: str, token: str) -> Holder | None:
        reply = await self._storage.run(_SCRIPT, self._keys, [what, self._name, token, str(int(LEASE_SECONDS * 1000))])
        _, held, name, since = cast("list[bytes]", reply)
        return Holder(name.decode(errors="replace"), int(held), float(since)) if held else None
