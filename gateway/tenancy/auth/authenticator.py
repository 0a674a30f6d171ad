"""Authentication of requests by API key: a bounded cache in front of the store, at most a second old."""

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gateway.caching.lru import Lru
from gateway.config.tenants import Tenant, Tier
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.auth.key_store import PREFIX, Found, KeyStore
from gateway.tenancy.tenants.caller import Caller
from gateway.tenancy.tenants.tenant_directory import Directory
from protos.errors import AuthenticationFailed, ClientError, KeyExpired, PenstockError, StoreUnavailable, TenantGone

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.4
#: A cached result counts only while the last successful poll began this recently, in seconds. A key revoked at t is
#: then refused from t + FRESH_SECONDS on; the rest of the promised second covers scheduling.
FRESH_SECONDS: Final = 0.9
#: Seconds since the last successful poll began for which a fail_open key is valid without the store.
OUTAGE_SECONDS: Final = 900.0
#: Keys of fail_open tenants, most recently used, that are read again at once after a change has cleared the cache.
MAX_RELEARNED: Final = 512

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

_EXPIRED: Final = "This API key has expired."


@dataclass(frozen=True, slots=True)
class _Known:
    """A cached valid key; its expiry is in seconds by the store's clock."""

    caller: Caller
    ends: float
    fail_open: bool


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A cached refusal of a key."""

    kind: type[ClientError]
    message: str


class Authenticator:
    """Authenticates requests of one worker. `run` must be running for results to be cached; close with `aclose`.

    A change of keys or tenants counts within a second. While the store does not answer, a remembered key of a tenant
    with `on_store_failure: fail_open` stays good for as long as 15 minutes, and no change, such as that the key was
    revoked, can be seen; a key's own end is seen all the same. Other keys get StoreUnavailable, and never a 401.
    """

    def __init__(
        self,
        keys: KeyStore,
        directory: Directory,
        *,
        cache_size: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cache_size` bounds the cached valid keys and, separately, the refused ones; `clock` gives seconds."""
        self._keys = keys
        self._directory = directory
        self._clock = clock
        self._known: Lru[bytes, _Known] = Lru(cache_size)
        self._refused: Lru[bytes, _Refusal] = Lru(cache_size)
        self._lookups: dict[bytes, asyncio.Task[_Known | _Refusal]] = {}
        self._tasks: set[asyncio.Task[_Known | _Refusal]] = set()
        self._refreshing = asyncio.Lock()
        self._version: bytes | None = None
        self._fresh_until = float("-inf")
        self._lapsed: list[bytes] = []
        self._outage = False
        self._outage_until = float("-inf")
        #: Offset of the store's clock from this worker's; corrected with every poll.
        self._ahead = 0.0

    async def authenticate(self, header: bytes | None) -> Caller:
        """Authenticate an Authorization header's value; a cached result returns without yielding to the event loop.

        Raises:
            AuthenticationFailed: No key, a malformed one, an unknown, a revoked or an expired one.
            TenantGone: The key's tenant no longer exists.
            StoreUnavailable: The store did not answer and nothing that may be used is remembered.
        """
        if header is not None and len(header) == _USUAL_LENGTH and header.startswith(_BEARER):
            token = header[len(_BEARER) :]
        else:
            token = _token(header)
        digest = sha256(token).digest()
        now = self._clock()
        if now < self._fresh_until:
            known = self._known.get(digest)
            if known is not None:
                return _unexpired(known, now + self._ahead)
            refusal = self._refused.get(digest)
            if refusal is not None:
                raise refusal.kind(refusal.message)
        elif self._outage and (known := self._outage_key(digest)):
            return _unexpired(known, now + self._ahead)
        # A token that cannot be a key of ours is refused without a lookup in the store.
        if not _SECRET.fullmatch(token):
            raise AuthenticationFailed(_incorrect(token))
        try:
            answer = await self._look_up(digest, token)
        except StoreUnavailable:
            outage_key = self._outage_key(digest)
            if outage_key is None:
                raise
            return _unexpired(outage_key, self._clock() + self._ahead)
        if isinstance(answer, _Refusal):
            raise answer.kind(answer.message)
        return answer.caller

    def use(self, directory: Directory) -> None:
        """Find tenants in another directory from now on, which takes over what this one has read from the store.

        Keys stay known, as what their tenants are now. What was worked out for models is worked out anew.
        """
        directory.take_stored(self._directory)
        self._directory = directory
        self._refused.clear()
        for digest, known in list(self._known.items()):
            caller = known.caller
            try:
                tenancy = directory.find(caller.key.tenant)
            except PenstockError:
                tenancy = None
            if tenancy is None:
                self._known.discard(digest)
            elif tenancy == (caller.tenant, caller.rank, caller.tier):
                # Requests under way have what they took of it; and 10,000 new callers would hold up the loop.
                caller.subscriptions.clear()
            else:
                self._known.put(digest, _known(caller.key, *tenancy))

    async def poll(self) -> None:
        """Ask the store once whether any key or tenant has changed, and clear the cache if so.

        Raises:
            StoreUnavailable: The store did not answer; what is remembered goes stale by itself.
        """
        started, before = self._clock(), self._version
        try:
            version, now = await self._keys.version()
            if version != before:
                await self._refresh(version, before)
        except StoreUnavailable as error:
            if not self._outage:
                log.warning("keys and tenants cannot be read; changes are not seen meanwhile: %s", error.__cause__)
            self._outage = True
            raise
        if self._outage:
            log.warning("keys and tenants can be read again")
            self._outage = False
        if version != self._version:
            # A lookup has seen a newer version meanwhile; the next poll will too.
            return
        # The store read its clock after the request was sent: a key expires a moment early rather than late.
        self._ahead = now - started
        self._fresh_until = started + FRESH_SECONDS
        self._outage_until = started + OUTAGE_SECONDS
        await self._relearn()

    async def run(self) -> None:
        """Poll until cancelled, through store outages."""
        while True:
            started = self._clock()
            try:
                await self.poll()
            except StoreUnavailable:
                pass
            except Exception:
                log.exception("the version of keys and tenants cannot be read")
            await asyncio.sleep(max(0.01, POLL_SECONDS - (self._clock() - started)))

    async def aclose(self) -> None:
        """Cancel the lookups in flight."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def serves_without_store(self) -> bool:
        """Whether any key is remembered that counts while the store does not answer."""
        now = self._clock()
        return now < self._outage_until and any(
            known.fail_open and now + self._ahead < known.ends for known in self._known.values()
        )

    def _outage_key(self, digest: bytes) -> _Known | None:
        """The cached key that may be used while the store does not answer, or None."""
        known = self._known.get(digest)
        return known if known is not None and known.fail_open and self._clock() < self._outage_until else None

    async def _refresh(self, version: bytes, before: bytes | None) -> None:
        """Load a version's tenants and forget all keys, unless the known version is no longer `before`."""
        async with self._refreshing:
            if self._version != before:
                return
            directory = self._directory
            await directory.load()
            if directory is not self._directory:
                # There is a new configuration meanwhile.
                self._directory.take_stored(directory)
            self._version = version
            self._lookups.clear()
            # After those of an earlier change that have not been read yet; each once, the latest last.
            lapsed = dict.fromkeys(digest for digest, known in self._known.items() if known.fail_open)
            self._lapsed = [*(d for d in self._lapsed if d not in lapsed), *lapsed][-MAX_RELEARNED:]
            self._known.clear()
            self._refused.clear()

    async def _relearn(self) -> None:
        """Read the forgotten keys that an outage would need, before their next request."""
        lapsed = self._lapsed
        if not lapsed:
            return
        found = await self._keys.find_many(lapsed)
        if found[0].version != self._version or self._lapsed is not lapsed:
            return  # there was another change: the next poll reads again
        self._lapsed = []
        for digest, each in zip(lapsed, found, strict=True):
            answer = self._guard(each, b"")
            if isinstance(answer, _Known):
                self._known.put(digest, answer)

    async def _look_up(self, digest: bytes, token: bytes) -> _Known | _Refusal:
        """Look a key up, once for all who wait for the same one; returns the key or its refusal."""
        task = self._lookups.get(digest)
        if task is None:
            task = asyncio.create_task(self._fetch(digest, token))
            self._lookups[digest] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # A cancelled request must not cancel the lookup of the others.
        return await asyncio.shield(task)

    async def _fetch(self, digest: bytes, token: bytes) -> _Known | _Refusal:
        before = self._version
        try:
            found = await self._keys.find(digest)
            if found.version != before:
                # The store is ahead of the last poll. Key and tenant must be of the same version.
                await self._refresh(found.version, before)
        finally:
            if self._lookups.get(digest) is asyncio.current_task():
                del self._lookups[digest]
        answer = self._guard(found, token)
        # A result read before the version known by now is not cached.
        if found.version == self._version:
            if isinstance(answer, _Known):
                self._known.put(digest, answer)
            else:
                self._refused.put(digest, answer)
        if isinstance(answer, _Known) and found.now >= answer.ends:
            return _Refusal(KeyExpired, _EXPIRED)
        return answer

    def _guard(self, found: Found, token: bytes) -> _Known | _Refusal:
        """Check a record except for its expiry."""
        key = found.key
        if key is None:
            return _Refusal(AuthenticationFailed, _incorrect(token))
        if key.revoked:
            return _Refusal(AuthenticationFailed, _REVOKED)
        tenancy = self._directory.find(key.tenant)
        if tenancy is None:
            return _Refusal(TenantGone, f"The tenant '{key.tenant}' of this API key no longer exists.")
        return _known(key, *tenancy)


def _known(key: ApiKey, tenant: Tenant, rank: int, tier: Tier) -> _Known:
    ends = math.inf if key.expires_at is None else key.expires_at
    return _Known(Caller(key, tenant, tier, rank), ends, tenant.on_store_failure == "fail_open")


def _unexpired(known: _Known, now: float) -> Caller:
    if now >= known.ends:
        raise KeyExpired(_EXPIRED)
    return known.caller


def _token(header: bytes | None) -> bytes:
    """The credential in a header's value, in any form."""
    if header is None:
        raise AuthenticationFailed(_MISSING)
    match = _SCHEME.fullmatch(header) if len(header) <= _LONGEST_HEADER else None
    if match is None:
        raise AuthenticationFailed(_MALFORMED)
    return match["token"]


def _incorrect(token: bytes) -> str:
    """OpenAI's error text; it shows the key's first 8 and last 4 characters, and fewer of a short key."""
    text = token.decode("ascii", "replace")
    shown = f"{text[:8]}{'*' * 8}{text[-4:]}" if len(text) >= _MASKED_LENGTH else "*" * 8
    return f"Incorrect API key provided: {shown}."
