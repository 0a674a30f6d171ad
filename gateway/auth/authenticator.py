"""From an Authorization header to an API key: a bounded cache in front of the store, never older than a second."""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gateway.auth.keys import PREFIX, ApiKey, KeyStore, digest_of
from protos.errors import AuthenticationFailed, StoreUnavailable

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.4
#: A remembered answer counts only while the last poll that succeeded began this recently, in seconds. A key revoked
#: at t is then refused from t + FRESH_SECONDS on; what is left of the promised second covers scheduling.
FRESH_SECONDS: Final = 0.9

_BEARER: Final = b"Bearer "
_LONGEST_HEADER: Final = 4096
_USUAL_LENGTH: Final = len(_BEARER) + len(PREFIX) + 43
_MASKED_LENGTH: Final = 24
_SECRET = re.compile(rb"%s[A-Za-z0-9_-]{43}" % PREFIX.encode())
_SCHEME = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[!-~]+) *")

_MISSING: Final = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)
_MALFORMED: Final = "The Authorization header is malformed. It must be of the form: Authorization: Bearer YOUR_KEY."
_REVOKED: Final = "This API key has been revoked."

V = TypeVar("V")


class Authenticator:
    """Checks keys for one worker. `run` must be running for answers to be remembered; close with `aclose`."""

    def __init__(
        self, keys: KeyStore, *, cache_size: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`cache_size` bounds the remembered good keys and, separately, the refused ones; `clock` gives seconds."""
        self._keys = keys
        self._clock = clock
        self._known: _Lru[ApiKey] = _Lru(cache_size)
        self._refused: _Lru[str] = _Lru(cache_size)
        self._lookups: dict[bytes, asyncio.Task[ApiKey | str]] = {}
        self._tasks: set[asyncio.Task[ApiKey | str]] = set()
        self._version: bytes | None = None
        self._generation = 0
        self._fresh_until = float("-inf")

    async def authenticate(self, header: bytes | None) -> ApiKey:
        """The key that an Authorization header's value names; answers from memory without giving up the event loop.

        Raises:
            AuthenticationFailed: No key, a malformed one, an unknown one or a revoked one.
            StoreUnavailable: The store did not answer and nothing fresh is remembered.
        """
        token = _token(header)
        digest = digest_of(token)
        if self._clock() < self._fresh_until:
            key = self._known.get(digest)
            if key is not None:
                return key
            refusal = self._refused.get(digest)
            if refusal is not None:
                raise AuthenticationFailed(refusal)
        # Before a digest is looked up in the store: a token that cannot be ours costs it nothing.
        if not _SECRET.fullmatch(token):
            raise AuthenticationFailed(_incorrect(token))
        answer = await self._look_up(digest, token)
        if isinstance(answer, str):
            raise AuthenticationFailed(answer)
        return answer

    async def poll(self) -> None:
        """Ask once whether any key has changed, and forget what was remembered if so.

        Raises:
            StoreUnavailable: The store did not answer; what is remembered goes stale by itself.
        """
        started = self._clock()
        version = await self._keys.version()
        if version != self._version:
            self._version = version
            # A lookup that is under way may have read the state before the change: its answer is not to be remembered.
            self._generation += 1
            self._lookups.clear()
            self._known.clear()
            self._refused.clear()
        self._fresh_until = started + FRESH_SECONDS

    async def run(self) -> None:
        """Poll until cancelled, through store outages."""
        while True:
            started = self._clock()
            try:
                await self.poll()
            except StoreUnavailable:
                pass
            except Exception:
                log.exception("the keys' version cannot be read")
            await asyncio.sleep(max(0.01, POLL_SECONDS - (self._clock() - started)))

    async def aclose(self) -> None:
        """End the lookups that are under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, digest: bytes, token: bytes) -> ApiKey | str:
        """Ask the store, once for all who wait for the same key; gives the key or the reason of its refusal."""
        task = self._lookups.get(digest)
        if task is None:
            task = asyncio.create_task(self._fetch(digest, token))
            self._lookups[digest] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # A caller that goes away must not take the answer from the others.
        return await asyncio.shield(task)

    async def _fetch(self, digest: bytes, token: bytes) -> ApiKey | str:
        generation = self._generation
        try:
            key = await self._keys.find(digest)
        finally:
            if self._lookups.get(digest) is asyncio.current_task():
                del self._lookups[digest]
        remember = generation == self._generation
        if key is None or key.revoked:
            refusal = _incorrect(token) if key is None else _REVOKED
            if remember:
                self._refused.put(digest, refusal)
            return refusal
        if remember:
            self._known.put(digest, key)
        return key


class _Lru(Generic[V]):
    """A bounded mapping that forgets what was used longest ago."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[bytes, V] = OrderedDict()

    def get(self, key: bytes) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: bytes, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()


def _token(header: bytes | None) -> bytes:
    """The credential in a header's value, which need not look like a key of ours."""
    if header is None:
        raise AuthenticationFailed(_MISSING)
    if len(header) == _USUAL_LENGTH and header.startswith(_BEARER):
        return header[len(_BEARER) :]
    match = _SCHEME.fullmatch(header) if len(header) <= _LONGEST_HEADER else None
    if match is None:
        raise AuthenticationFailed(_MALFORMED)
    return match["token"]


def _incorrect(token: bytes) -> str:
    """OpenAI's wording; of the key it shows 8 characters in front and 4 at the end, and less of a short one."""
    text = token.decode("ascii", "replace")
    shown = f"{text[:8]}{'*' * 8}{text[-4:]}" if len(text) >= _MASKED_LENGTH else "*" * 8
    return f"Incorrect API key provided: {shown}."
