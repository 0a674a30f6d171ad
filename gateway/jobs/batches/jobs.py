"""Batches in the store: create, read, and lease their tasks and stages to workers.

A unit of work of a batch is a task's number, `check` or `finish`. Each has one holder at a time; what a former holder
hands in does not count.
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
from gateway.jobs.files.content_keys import tenant_key, work_name
from gateway.jobs.files.file_store import DAY_SECONDS, Page, page_of
from gateway.jobs.files.file_store import Storage as FileStorage
from gateway.store.lua_script import Script
from protos.errors import BatchMissing, FileMissing, InvalidRequest, RateLimited, StoreUnavailable

#: Seconds until a lease without renewal expires; workers renew it every RENEW_SECONDS.
LEASE_SECONDS: Final = 6.0
RENEW_SECONDS: Final = 2.0
CHECK: Final = "check"
FINISH: Final = "finish"
#: Bound on the batches of one search; and how long one that is not there yet is searched for, in seconds.
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
    """The store's methods that batches need; all raise StoreUnavailable."""

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Return all fields of many hashes."""


@dataclass(frozen=True, slots=True)
class JobName:
    """A batch's id and tenant."""

    tenant: str
    id: str

    def key(self, part: str) -> str:
        """Make the store's key of a part of the batch."""
        return tenant_key(self.tenant, part, self.id)


@dataclass(frozen=True, slots=True)
class Claim:
    """A leased unit of work; `done` is the progress that earlier holders committed."""

    job: JobName
    what: str
    token: str
    done: str


class Jobs:
    """Any method may raise StoreUnavailable; its change may have been made all the same."""

    def __init__(self, storage: Storage, settings: BatchSettings) -> None:
        self._storage = storage
        self._settings = settings

    async def create(self, tenant: str, request: BatchRequest, idempotency_key: str | None) -> Batch:
        """Create a batch, or return the one that the same key and request have created before.

        Raises FileMissing, InvalidRequest where the key was used for another request, and RateLimited.
        """
        job = JobName(tenant, new_batch_id())
        await self._storage.run(_ENLIST, [_ACTIVE], [f"{time.time():.6f}", f"{tenant}/{job.id}"])
        raw = msgspec.json.encode(request)
        digest, named = "", "none"
        if idempotency_key is not None:
            digest = hashlib.sha256(raw).hexdigest()
            named = hashlib.sha256(idempotency_key.encode()).hexdigest()
        keys = [tenant_key(tenant, name) for name in ("files", "uses", "batches", "active")]
        keys += [job.key("batch"), job.key("open"), tenant_key(tenant, "idem", named), tenant_key(tenant, "batch-ends")]
        bounds = (str(_IDEMPOTENT_SECONDS), str(self._settings.max_active), str(WINDOW_SECONDS))
        forgotten = str(self._settings.keep_days * DAY_SECONDS)
        made = await self._storage.run(_CREATE, keys, [job.id, request.input_file_id, raw, digest, *bounds, forgotten])
        if made != job.id.encode():
            await self.deactivate(job)
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
        """Return a batch. Raises BatchMissing."""
        found = None
        if is_batch_id(batch_id):
            found = _batch(batch_id, await self._storage.hgetall(tenant_key(tenant, "batch", batch_id)))
        if found is None:
            shown = batch_id if len(batch_id) <= 128 else batch_id[:128] + "..."
            raise BatchMissing(f"No such Batch object: {shown}", param="batch_id")
        return found

    async def page(self, tenant: str, page: Page) -> tuple[list[Batch], bool]:
        """Return a page of a tenant's batches, and whether there are more. Raises InvalidRequest."""
        raw, more = await page_of(self._storage, [tenant_key(tenant, "batches")], page, "Batch")
        ids = [each.decode() for each in raw]
        hashes = await self._storage.hgetall_many([tenant_key(tenant, "batch", each) for each in ids])
        found = (_batch(each, fields) for each, fields in zip(ids, hashes, strict=True))
        return [batch for batch in found if batch is not None], more

    async def cancel(self, tenant: str, batch_id: str) -> Batch:
        """Begin to cancel a batch. Raises BatchMissing, and InvalidRequest where it has ended."""
        batch = await self.get(tenant, batch_id)
        reply = await self._storage.run(_CANCEL, [tenant_key(tenant, "batch", batch_id)], [])
        if reply not in (b"ok", b"gone"):
            status = cast("bytes", reply).decode()
            raise InvalidRequest(f"Cannot cancel a batch with status '{status}'.", param="batch_id")
        return await self.get(tenant, batch.id)

    async def active(self) -> list[tuple[JobName, float]]:
        """List the batches that have not ended, the oldest first, with the time when each was enlisted."""
        reply = cast("list[bytes]", await self._storage.run(_FIRST, [_ACTIVE], [str(MOST_FOUND)]))
        found = []
        for member, score in zip(reply[::2], reply[1::2], strict=True):
            tenant, _, batch_id = member.decode().partition("/")
            found.append((JobName(tenant, batch_id), float(score)))
        return found

    async def claim(self, job: JobName, token: str, enlisted: float = 0.0, *, tasks: bool = True) -> Claim | None:
        """Lease a unit of work of a batch; None: there is none now. Without `tasks` only stages are leased.

        A batch that is over leaves the list of active ones.
        """
        keys = [job.key(part) for part in ("batch", "open", "holders", "done")]
        what, *more = cast(
            "list[bytes]", await self._storage.run(_CLAIM, keys, [token, str(LEASE_SECONDS), str(int(tasks))])
        )
        if what == b"over" or (what == b"gone" and time.time() - enlisted > _ARRIVAL_SECONDS):
            await self.deactivate(job)
        if what in (b"over", b"gone", b"wait"):
            return None
        return Claim(job, what.decode(), token, more[0].decode())

    async def renew(self, claim: Claim) -> str:
        """Renew a lease; return `ok`, `lost`, or the status that the batch is about to end with."""
        keys = [claim.job.key(part) for part in ("batch", "open", "holders")]
        reply = await self._storage.run(_RENEW, keys, [claim.token, str(LEASE_SECONDS), claim.what])
        return cast("bytes", reply).decode()

    async def checked(self, claim: Claim, tasks: int, requests: int, model: str, input_file: str) -> bool:
        """Record that the input is valid and has so many tasks. False: the lease is lost."""
        return await self._checked(claim, input_file, str(tasks), str(requests), model, b"")

    async def failed(self, claim: Claim, problems: Sequence[LineProblem], input_file: str) -> bool:
        """Record that the input is invalid. False: the lease is lost."""
        return await self._checked(claim, input_file, "", "0", "", msgspec.json.encode(problems))

    async def commit(self, claim: Claim, part: str, done: str, then: str, counted: Counted) -> bool:
        """Commit results, which are in the content `part`; `then` is `keep`, `free` or `over`. False: the lease is
        lost.

        `done` is the task's progress with them; `*` means all of it.
        """
        keys = [claim.job.key(name) for name in ("batch", "open", "holders", "done", "parts")]
        numbers: list[str] = []
        for name, value in msgspec.structs.asdict(counted).items():
            if value:
                numbers += [name, str(value)]
        reply = await self._storage.run(_COMMIT, keys, [claim.token, claim.what, part, done, then, *numbers])
        return reply == b"ok"

    async def parts(self, job: JobName) -> list[str]:
        """List all parts of the results."""
        return [part.decode() for part in cast("list[bytes]", await self._storage.run(_PARTS, [job.key("parts")], []))]

    async def done(self, job: JobName) -> dict[int, str]:
        """Return the progress of each task that has any."""
        found = await self._storage.hgetall(job.key("done"))
        return {int(name): value.decode() for name, value in found.items() if name.isdigit()}

    async def finish(self, claim: Claim, input_file: str, output: str, errors: str, failed: int) -> bool:
        """Record that the results are stored; `failed` counts failed requests beside the committed ones."""
        job = claim.job
        keys = [job.key(name) for name in ("batch", "open", "holders", "done", "parts")]
        keys += [tenant_key(job.tenant, name) for name in ("uses", "active", "doomed")]
        work = work_name(job.tenant, job.id)
        arguments = [claim.token, job.id, input_file, work, output, errors, str(failed)]
        over = await self._storage.run(_FINISH, keys, arguments) == b"ok"
        if over:
            await self.deactivate(job)
        return over

    async def forget(self, tenant: str) -> None:
        """Delete a tenant's expired batches."""
        ends = tenant_key(tenant, "batch-ends")
        old = cast("list[bytes]", await self._storage.run(_OLD, [ends], [f"{time.time():.6f}"]))
        if old:
            ids = [each.decode() for each in old]
            batches = [tenant_key(tenant, "batch", each) for each in ids]
            await self._storage.run(_FORGET, [ends, tenant_key(tenant, "batches"), *batches], ids)

    async def deactivate(self, job: JobName) -> None:
        """Remove a batch from the list of active ones."""
        await self._storage.run(_STRIKE, [_ACTIVE], [f"{job.tenant}/{job.id}"])

    async def _checked(
        self, claim: Claim, input_file: str, tasks: str, requests: str, model: str, problems: bytes
    ) -> bool:
        job = claim.job
        keys = [job.key(name) for name in ("batch", "open", "holders")]
        keys += [tenant_key(job.tenant, name) for name in ("uses", "active", "doomed")]
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
