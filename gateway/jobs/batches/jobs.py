"""Batches in the store: making them, looking at them, and the leases by which workers share what they are made of.

What a worker does of a batch is a task's number, `check` or `finish`; each has one holder at a time, and what somebody
hands in who is no longer the holder does not count.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

import msgspec

from gateway.config.batches import Batches as BatchSettings
from gateway.jobs.batches.batch_records import (
    WINDOW_SECONDS,
    Batch,
    BatchRequest,
    Counted,
    LineProblem,
    is_batch_id,
    new_batch_id,
)
from gateway.jobs.files.content_keys import place, work_name
from gateway.jobs.files.file_store import DAY_SECONDS, Page, page_of
from gateway.jobs.files.file_store import Storage as FileStorage
from gateway.store.lua_script import Script
from protos.errors import BatchMissing, FileMissing, InvalidRequest, RateLimited, StoreUnavailable

#: How long what a worker does stays its own without a sign of life, in seconds; it gives one every RENEW_SECONDS.
LEASE_SECONDS: Final = 6.0
RENEW_SECONDS: Final = 2.0
CHECK: Final = "check"
FINISH: Final = "finish"
#: Batches that one look finds; and for how long one that is not there yet is looked for, in seconds.
MOST_FOUND: Final = 256
_ARRIVAL_SECONDS: Final = 60.0
_IDEMPOTENT_SECONDS: Final = 2 * 86_400
#: A sorted set: tenant and id of the batches that have not ended, by the time of their creation.
_ACTIVE: Final = "penstock:{batches}:active"

_CREATE = Script.load("gateway.jobs.batches", "lua/create.lua")
_CLAIM = Script.load("gateway.jobs.batches", "lua/claim.lua")
_RENEW = Script.load("gateway.jobs.batches", "lua/renew.lua")
_CHECKED = Script.load("gateway.jobs.batches", "lua/checked.lua")
_COMMIT = Script.load("gateway.jobs.batches", "lua/commit.lua")
_FINISH = Script.load("gateway.jobs.batches", "lua/finish.lua")
_CANCEL = Script.load("gateway.jobs.batches", "lua/cancel.lua")
_FORGET = Script.load("gateway.jobs.batches", "lua/forget.lua")
_ENLIST = Script("return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])")
_STRIKE = Script("return redis.call('ZREM', KEYS[1], ARGV[1])")
_FIRST = Script("return redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')")
_PARTS = Script("return redis.call('LRANGE', KEYS[1], 0, -1)")
_OLD = Script("return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100)")


class Storage(FileStorage, Protocol):
    """What is needed of a store; all raise StoreUnavailable."""

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        """All fields of many hashes."""


@dataclass(frozen=True, slots=True)
class JobName:
    """A batch, and whose it is."""

    tenant: str
    id: str

    def key(self, part: str) -> str:
        """Where the store has a part of it."""
        return place(self.tenant, part, self.id)


@dataclass(frozen=True, slots=True)
class Claim:
    """What its holder may do of a batch; `done` is what others have done of it, as `commit` was told."""

    job: JobName
    what: str
    token: str
    done: str


class Jobs:
    """Every method may raise StoreUnavailable; what it was to do may have been done all the same."""

    def __init__(self, storage: Storage, settings: BatchSettings) -> None:
        self._storage = storage
        self._settings = settings

    async def create(self, tenant: str, request: BatchRequest, idempotency_key: str | None) -> Batch:
        """A new batch, or the one that the same key and request have made before.

        Raises FileMissing, InvalidRequest where the key was used for something else, and RateLimited.
        """
        job = JobName(tenant, new_batch_id())
        await self._storage.run(_ENLIST, [_ACTIVE], [f"{time.time():.6f}", f"{tenant}/{job.id}"])
        raw = msgspec.json.encode(request)
        digest, named = "", "none"
        if idempotency_key is not None:
            digest = hashlib.sha256(raw).hexdigest()
            named = hashlib.sha256(idempotency_key.encode()).hexdigest()
        keys = [place(tenant, name) for name in ("files", "uses", "batches", "active")]
        keys += [job.key("batch"), job.key("open"), place(tenant, "idem", named), place(tenant, "batch-ends")]
        bounds = (str(_IDEMPOTENT_SECONDS), str(self._settings.max_active), str(WINDOW_SECONDS))
        forgotten = str(self._settings.keep_days * DAY_SECONDS)
        made = await self._storage.run(_CREATE, keys, [job.id, request.input_file_id, raw, digest, *bounds, forgotten])
        if made != job.id.encode():
            await self.strike(job)
        if made == b"other":
            raise InvalidRequest("This Idempotency-Key was used for another request.", param="Idempotency-Key")
        if made == b"missing":
            raise FileMissing(f"No such File object: {request.input_file_id}", param="input_file_id")
        if made == b"many":
            raise RateLimited(
                f"You have {self._settings.max_active} batches that have not ended. Wait for one, or cancel one.",
                code="too_many_batches",
            )
        return await self.get(tenant, cast("bytes", made).decode())

    async def get(self, tenant: str, batch_id: str) -> Batch:
        """Raises BatchMissing."""
        found = None
        if is_batch_id(batch_id):
            found = _batch(batch_id, await self._storage.hgetall(place(tenant, "batch", batch_id)))
        if found is None:
            shown = batch_id if len(batch_id) <= 128 else batch_id[:128] + "..."
            raise BatchMissing(f"No such Batch object: {shown}", param="batch_id")
        return found

    async def page(self, tenant: str, page: Page) -> tuple[list[Batch], bool]:
        """Some of a tenant's batches, and whether there are more. Raises InvalidRequest."""
        raw, more = await page_of(self._storage, [place(tenant, "batches")], page, "Batch")
        ids = [each.decode() for each in raw]
        hashes = await self._storage.hgetall_many([place(tenant, "batch", each) for each in ids])
        found = (_batch(each, fields) for each, fields in zip(ids, hashes, strict=True))
        return [batch for batch in found if batch is not None], more

    async def cancel(self, tenant: str, batch_id: str) -> Batch:
        """Begin to end a batch. Raises BatchMissing, and InvalidRequest where it has ended."""
        batch = await self.get(tenant, batch_id)
        reply = await self._storage.run(_CANCEL, [place(tenant, "batch", batch_id)], [])
        if reply not in (b"ok", b"gone"):
            status = cast("bytes", reply).decode()
            raise InvalidRequest(f"Cannot cancel a batch with status '{status}'.", param="batch_id")
        return await self.get(tenant, batch.id)

    async def active(self) -> list[tuple[JobName, float]]:
        """The batches that have not ended, the oldest first, with the time when each was enlisted."""
        reply = cast("list[bytes]", await self._storage.run(_FIRST, [_ACTIVE], [str(MOST_FOUND)]))
        found = []
        for member, score in zip(reply[::2], reply[1::2], strict=True):
            tenant, _, batch_id = member.decode().partition("/")
            found.append((JobName(tenant, batch_id), float(score)))
        return found

    async def claim(self, job: JobName, token: str, enlisted: float = 0.0, *, tasks: bool = True) -> Claim | None:
        """Take something to do of a batch; None: there is nothing now. Without `tasks` it may be anything but one.

        A batch that is over is no longer active then.
        """
        keys = [job.key(part) for part in ("batch", "open", "holders", "done")]
        what, *more = cast(
            "list[bytes]", await self._storage.run(_CLAIM, keys, [token, str(LEASE_SECONDS), str(int(tasks))])
        )
        if what == b"over" or (what == b"gone" and time.time() - enlisted > _ARRIVAL_SECONDS):
            await self.strike(job)
        if what in (b"over", b"gone", b"wait"):
            return None
        return Claim(job, what.decode(), token, more[0].decode())

    async def renew(self, claim: Claim) -> str:
        """Keep what was claimed; gives `ok`, `lost`, or the outcome that the batch is about to end with."""
        keys = [claim.job.key(part) for part in ("batch", "open", "holders")]
        reply = await self._storage.run(_RENEW, keys, [claim.token, str(LEASE_SECONDS), claim.what])
        return cast("bytes", reply).decode()

    async def checked(self, claim: Claim, tasks: int, requests: int, model: str, input_file: str) -> bool:
        """The input is good, and so many tasks may begin. False: the claim is lost."""
        return await self._checked(claim, input_file, str(tasks), str(requests), model, b"")

    async def failed(self, claim: Claim, problems: Sequence[LineProblem], input_file: str) -> bool:
        """The input is not good. False: the claim is lost."""
        return await self._checked(claim, input_file, "", "0", "", msgspec.json.encode(problems))

    async def commit(self, claim: Claim, part: str, done: str, then: str, counted: Counted) -> bool:
        """Add results, which are in the work's content `part`; `then` is `keep`, `free` or `over`. False: it is lost.

        `done` is what has been done of the task by now; `*` is all of it.
        """
        keys = [claim.job.key(name) for name in ("batch", "open", "holders", "done", "parts")]
        numbers: list[str] = []
        for name, value in msgspec.structs.asdict(counted).items():
            if value:
                numbers += [name, str(value)]
        reply = await self._storage.run(_COMMIT, keys, [claim.token, claim.what, part, done, then, *numbers])
        return reply == b"ok"

    async def parts(self, job: JobName) -> list[str]:
        """All parts of the results."""
        return [part.decode() for part in cast("list[bytes]", await self._storage.run(_PARTS, [job.key("parts")], []))]

    async def done(self, job: JobName) -> dict[int, str]:
        """What has been done of each task of which anything has."""
        found = await self._storage.hgetall(job.key("done"))
        return {int(name): value.decode() for name, value in found.items() if name.isdigit()}

    async def finish(self, claim: Claim, input_file: str, output: str, errors: str, failed: int) -> bool:
        """The results are there; `failed` are requests that failed beside those that were committed."""
        job = claim.job
        keys = [job.key(name) for name in ("batch", "open", "holders", "done", "parts")]
        keys += [place(job.tenant, name) for name in ("uses", "active", "doomed")]
        work = work_name(job.tenant, job.id)
        arguments = [claim.token, job.id, input_file, work, output, errors, str(failed)]
        over = await self._storage.run(_FINISH, keys, arguments) == b"ok"
        if over:
            await self.strike(job)
        return over

    async def forget(self, tenant: str) -> None:
        """Forget the batches of a tenant whose time is over."""
        ends = place(tenant, "batch-ends")
        old = cast("list[bytes]", await self._storage.run(_OLD, [ends], [f"{time.time():.6f}"]))
        if old:
            ids = [each.decode() for each in old]
            batches = [place(tenant, "batch", each) for each in ids]
            await self._storage.run(_FORGET, [ends, place(tenant, "batches"), *batches], ids)

    async def strike(self, job: JobName) -> None:
        """Take it off the list of those that have not ended."""
        await self._storage.run(_STRIKE, [_ACTIVE], [f"{job.tenant}/{job.id}"])

    async def _checked(
        self, claim: Claim, input_file: str, tasks: str, requests: str, model: str, problems: bytes
    ) -> bool:
        job = claim.job
        keys = [job.key(name) for name in ("batch", "open", "holders")]
        keys += [place(job.tenant, name) for name in ("uses", "active", "doomed")]
        work = work_name(job.tenant, job.id)
        arguments: list[str | bytes] = [claim.token, tasks, requests, model, problems, job.id, input_file, work]
        return await self._storage.run(_CHECKED, keys, arguments) == b"ok"


def _batch(batch_id: str, raw: dict[bytes, bytes]) -> Batch | None:
    if not raw:
        return None
    fields = {name.decode(): value.decode() for name, value in raw.items()}
    try:
        return Batch(batch_id, msgspec.json.decode(fields.pop("request"), type=BatchRequest), fields)
    except (msgspec.DecodeError, KeyError) as error:
        raise StoreUnavailable("The gateway's store holds a batch that cannot be read.") from error
