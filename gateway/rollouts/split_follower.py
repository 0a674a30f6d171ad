"""Follows the store's splits in one worker: told by the store, and looked at besides."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

import msgspec

from gateway.fleets.discovery.announcements import Announcements
from gateway.rollouts.split_note import SplitNote
from gateway.store.unreadable import UNREADABLE
from protos.errors import StoreUnavailable
from routing.rollouts.split import CHANGED, SPLITS, Split

log = logging.getLogger(__name__)

#: Seconds between two looks, so that a change counts within a second even where nobody was told of it.
LOOK_SECONDS: Final = 0.5


class Followed(Protocol):
    """The versions of one model in a worker."""

    def follow(self, stored: Split | None) -> None:
        """Go by this split from now on; None: the store has none."""
        ...


class Storage(Protocol):
    """A store with hashes and channels, as `Store` is."""

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """Read all fields of a hash. Raises StoreUnavailable."""
        ...

    async def hear(self, channel: str, heard: Callable[[], None]) -> None:
        """Call `heard` for each message, and where some may have been missed. Raises StoreUnavailable."""
        ...


class SplitFollower:
    """Hands each model's split on. While the store is away, or has what cannot be read, the last one goes on; where it
    has been away since the start, what this machine has noted.
    """

    def __init__(
        self,
        storage: Storage,
        models: Mapping[str, Followed],
        note: SplitNote | None = None,
        last: "SplitFollower | None" = None,
    ) -> None:
        """`models` are by name. The `last` one, of another configuration, hands over what it knows."""
        self._storage = storage
        self._models = models
        self._note = note
        self._known: Mapping[str, Split] = {} if last is None else last._known
        #: It goes on to follow until this one does, which may be seconds later.
        self._last = last
        #: Models of which the store has been read, and those of which there is a note alone.
        self._read: frozenset[str] = frozenset() if last is None else last._read & models.keys()
        self._noted: frozenset[str] = frozenset() if last is None else last._noted & models.keys()
        #: The splits that were last handed to the note.
        self._handed_on: Mapping[str, Split | None] | None = None
        self._away = False
        self._unreadable: frozenset[str] = frozenset()
        self._announced = asyncio.Event()

    async def read(self) -> None:
        """Read the splits, if the store answers."""
        try:
            stored = await self._storage.hgetall(SPLITS)
        except StoreUnavailable as error:
            if not self._away:
                log.warning("requests are divided between versions as they were: %s", error.__cause__ or error)
                await self._remember()
            self._away = True
            return
        self._away = False
        known, unreadable = {}, set()
        for field, value in stored.items():
            name = field.decode("utf-8", "replace")
            if name not in self._models:
                continue
            try:
                known[name] = msgspec.json.decode(value, type=Split)
            except UNREADABLE as error:
                unreadable.add(name)
                if name not in self._unreadable:
                    log.warning("the split of the model %s cannot be read, so the last one goes on: %s", name, error)
                if name in self._known:
                    known[name] = self._known[name]
        first = not unreadable <= self._unreadable
        self._known, self._unreadable = known, frozenset(unreadable)
        self._read |= self._models.keys() - unreadable
        if first:
            await self._remember()
        self._noted -= self._read
        if self._note is not None:
            noted = {name: self._known.get(name) for name in self._models.keys() - self.unknown()}
            if noted != self._handed_on:
                await asyncio.to_thread(self._note.write, noted)
                self._handed_on = noted

    async def _remember(self) -> None:
        """Go by this machine's note of the models of which the store has never been read."""
        unread = self._models.keys() - self._read
        if self._note is None or not unread:
            return
        noted = await asyncio.to_thread(self._note.read)
        self._noted = frozenset(unread & noted.keys())
        self._known = {**self._known, **{name: split for name in self._noted if (split := noted[name]) is not None}}
        for problem in self.problems():
            log.warning("%s", problem)

    def unknown(self) -> list[str]:
        """Return the models of which neither the store nor a note has said which version is stable."""
        return sorted(self._models.keys() - self._read - self._noted)

    def problems(self) -> list[str]:
        """Say which models go by what may be out of date, one sentence each; for anybody's eyes."""
        found = [
            f"The store has not said which version of the model {name} is stable: it goes by the one that this machine "
            "has noted."
            for name in sorted(self._noted)
        ]
        return found + [
            f"The store has not said which version of the model {name} is stable, and this machine has no note of it: "
            "the file's answers, though another one may have been promoted."
            for name in self.unknown()
        ]

    def apply(self, names: Collection[str] | None = None) -> None:
        """Let these models, or all, go by what is known, here or in the last follower."""
        later = {} if self._last is None else self._last._known
        newer = {
            name: one for name, one in later.items() if name not in self._known or one.epoch > self._known[name].epoch
        }
        self._known = {**self._known, **newer}
        for name, versions in self._models.items():
            if names is None or name in names:
                versions.follow(self._known.get(name))

    async def run(self) -> None:
        """Follow until cancelled."""
        without = "changes of how requests are divided between versions are noticed up to 0.5 s later"
        self._last = None
        told = asyncio.create_task(Announcements(self._storage, CHANGED, self._announced.set, without).run())
        try:
            while True:
                self._announced.clear()
                try:
                    await self.read()
                    self.apply()
                except Exception:
                    # Any error: a split that is never followed again is worse than one missed look.
                    log.exception("following how requests are divided between versions")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._announced.wait()
        finally:
            told.cancel()
            await asyncio.gather(told, return_exceptions=True)
