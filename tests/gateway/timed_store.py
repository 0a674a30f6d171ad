"""A store for tests of controllers: its clock is the test's, it may be away, and it may be a controller's last act."""

from collections.abc import Sequence
from typing import cast

from gateway.scaling.leasing import lease
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.tenants import transactions
from protos.errors import StoreUnavailable


class Killed(BaseException):
    """The end of a controller's process, in the middle of what it does."""


class Clocked:
    """The time of a played world, and the writes (and what else it counts) of its controllers.

    After those in `kills` a controller is killed. While `away`, the store does not answer; while `unsure`, it writes
    and does not say so. Its clock is `ahead` of the world's.
    """

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.away = self.unsure = False
        self.ahead = 0.0
        self.acts = 0
        self.kills: frozenset[int] = frozenset()

    def act(self) -> None:
        """Count an act of a controller. Raises Killed after those in `kills`."""
        self.acts += 1
        if self.acts in self.kills:
            raise Killed


class TimedStore:
    """A store as a controller of a played world sees it."""

    def __init__(self, store: Store, world: Clocked, *timed: Script) -> None:
        """`timed` are further scripts whose replies begin with the store's time."""
        self._store, self._world = store, world
        self._timed = (transactions._READ, *timed)

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        self._ask()
        return await self._store.hgetall(key)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        self._ask()
        reply = await self._store.run(script, keys, arguments)
        if script is lease._WRITE:
            self._world.act()
            if self._world.unsure:
                raise StoreUnavailable("no answer")
        if script in self._timed:
            _, *values = cast("list[bytes]", reply)
            return [repr(self._world.now + self._world.ahead).encode(), *values]
        return reply

    def _ask(self) -> None:
        if self._world.away:
            raise StoreUnavailable("away")
