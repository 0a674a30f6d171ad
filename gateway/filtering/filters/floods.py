"""Flood detection: identical or similar prompts of a tenant, counted over all workers in the store.

The store holds parts of keyed hashes of prompts, and the key, for no longer than they count, in bounded size for each
tenant and filter (lua/floods.lua): some 100 kB for identical prompts, some 400 kB for similar ones. In exchange rare
prompts are forgotten: a flood goes unseen where identical prompts are fewer than one in 2,000 of the window's, or
similar ones fewer than one in 500.
"""

import asyncio
import secrets
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

import msgspec

from gateway.config.safety.settings import FloodsFilter
from gateway.store.lua_script import Script
from gateway.tenancy.limits.limit_scripts import base_key
from protos.errors import StoreUnavailable
from safety.match import Match
from safety.sketch import KEY_BYTES, Sketcher

IDENTICAL: Final = "identical_prompts"
SIMILAR: Final = "similar_prompts"

#: The key of all fingerprints. Whoever reads the store reads the key, too; it only prevents that copied parts of the
#: store, such as one tenant's tables, are compared with guesses.
KEY: Final = "penstock:{floods}:key"
#: After the store has lost the key, one worker writes it again and the others read it within this time, in seconds.
KEY_SECONDS: Final = 60.0
#: Parts of a window, as in the script.
PARTS: Final = 4
#: Longer prompts are hashed off the event loop.
INLINE_CHARACTERS: Final = 65_536

#: Milliseconds of a part, and the length of the fingerprint that follows; the sketch comes after it.
_HEAD: Final = struct.Struct(">IB")
_COUNT: Final = Script.load("gateway.filtering.filters", "lua/floods.lua")
_SHARE: Final = Script("redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])")
_decoder: Final[msgspec.msgpack.Decoder[tuple[int, int]]] = msgspec.msgpack.Decoder(tuple[int, int])


class ScriptStore(Protocol):
    """The store's methods that floods need; both raise StoreUnavailable."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and give its reply."""

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        """Run a Lua script for each (key, argument) in one round trip."""


class FloodGate:
    """Counts prompts, refused ones too; a tenant that floods is let in again once the flood is over."""

    def __init__(self, store: ScriptStore, settings: FloodsFilter, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds until the key is read again; floods themselves use the store's clock."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._key = secrets.token_bytes(KEY_BYTES)
        self._known_until = float("-inf")
        self._sketcher = Sketcher(self._key)

    async def check(self, tenant: str, filter_name: str, texts: Sequence[str]) -> list[Match]:
        """Count one prompt of a tenant, given as its user's messages. A match covers all of them.

        Raises:
        StoreUnavailable: The store did not answer; the prompt may have been counted.
        """
        settings, characters = self._settings, sum(map(len, texts))
        if characters < max(1, settings.characters) or (settings.identical is None and settings.similar is None):
            return []
        await self._share_key()
        if characters > INLINE_CHARACTERS:
            digests = await asyncio.to_thread(self._digests, texts)
        else:
            digests = self._digests(texts)
        base = f"{base_key(tenant)}:floods:{filter_name}:{settings.seconds}"
        argument = _HEAD.pack(settings.seconds * 1000 // PARTS, len(digests[0])) + b"".join(digests)
        (reply,) = await self._store.run_many(_COUNT, [(base, argument)])
        if isinstance(reply, StoreUnavailable):
            raise reply
        same, like = _decoder.decode(reply)
        found = []
        if settings.identical is not None and same > settings.identical:
            found.append(Match(0, characters, IDENTICAL))
        if settings.similar is not None and like > settings.similar:
            found.append(Match(0, characters, SIMILAR))
        return found

    def _digests(self, texts: Sequence[str]) -> tuple[bytes, bytes]:
        """Make fingerprint and sketch, empty where that is not counted."""
        sketcher = self._sketcher
        same = sketcher.fingerprint(texts) if self._settings.identical is not None else b""
        like = b"".join(sketcher.sketch(texts)) if self._settings.similar is not None else b""
        return same, like

    async def _share_key(self) -> None:
        now = self._clock()
        if now < self._known_until:
            return
        key = cast("bytes", await self._store.run(_SHARE, [KEY], [self._key]))
        if key != self._key:
            self._key, self._sketcher = key, Sketcher(key)
        self._known_until = now + KEY_SECONDS
