"""The leases of a batch in the store: one holder at a time, nothing lost, and nothing counted twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from gateway.config.batches import Batches
from gateway.jobs.batches import jobs as jobs_module
from gateway.jobs.batches.batch_records import BatchRequest, Counted, LineProblem
from gateway.jobs.batches.jobs import CHECK, FINISH, Claim, JobName, Jobs
from gateway.jobs.files.content_keys import tenant_key
from gateway.jobs.files.file_store import Page
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import BatchMissing, FileMissing, InvalidRequest, RateLimited

FILE = "file-" + "0" * 24
_HSET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
_HGET = Script("return redis.call('HGET', KEYS[1], ARGV[1])")


class World:
    """A store with one file, and the batches in it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.jobs = Jobs(store, Batches(max_active=3))

    async def make(self, key: str | None = None, endpoint: str = "/v1/chat/completions") -> JobName:
        batch = await self.jobs.create("acme", BatchRequest(FILE, endpoint, "key_1"), key)
        return JobName("acme", batch.id)

    async def claimed(self, job: JobName, token: str = "me") -> Claim:
        claim = await self.jobs.claim(job, token)
        assert claim is not None
        return claim

    async def begun(self, tasks: int = 2) -> JobName:
        """A batch whose input has been checked."""
        job = await self.make()
        check = await self.claimed(job)
        assert await self.jobs.checked(check, tasks, 64 * tasks, "m", FILE)
        return job

    async def field(self, job: JobName, name: str) -> str | None:
        return (await self.jobs.get(job.tenant, job.id)).fields.get(name)

    async def set_field(self, job: JobName, name: str, value: str) -> None:
        await self.store.run(_HSET, [job.key("batch")], [name, value])

    async def uses(self) -> bytes:
        found = await self.store.run(_HGET, [tenant_key("acme", "uses")], [FILE])
        assert isinstance(found, bytes)
        return found


Running = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def opened(any_store_url: str) -> Running:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[World]:
        store = Store(any_store_url, timeout=10.0)
        try:
            await store.run(_HSET, [tenant_key("acme", "files")], [FILE, "{}"])
            yield World(store)
        finally:
            await store.aclose()

    return opened


async def test_from_its_creation_to_its_end(opened: Running) -> None:
    async with opened() as world:
        jobs = world.jobs
        job = await world.make()
        assert [name for name, _ in await jobs.active()] == [job]
        check = await world.claimed(job)
        assert check.what == CHECK
        assert await jobs.claim(job, "other") is None
        assert await jobs.checked(check, 2, 100, "m", FILE)
        assert await world.field(job, "status") == "in_progress"
        first, second = await world.claimed(job), await world.claimed(job, "other")
        assert [first.what, second.what, first.done] == ["0000000", "0000001", ""]
        assert await jobs.claim(job, "third") is None
        assert await jobs.commit(first, "a", "*", "over", Counted(completed=60, failed=4, input_tokens=7))
        assert await jobs.claim(job, "third") is None
        assert await jobs.commit(second, "b", "*", "over", Counted(completed=36))
        finish = await world.claimed(job)
        assert finish.what == FINISH
        assert await world.field(job, "status") == "finalizing"
        assert sorted(await jobs.parts(job)) == ["a", "b"]
        assert await world.uses() == b"1"
        assert await jobs.finish(finish, FILE, "file-out", "", 0)
        batch = (await jobs.get("acme", job.id)).shown()
        assert (batch["status"], batch["output_file_id"], batch["error_file_id"]) == ("completed", "file-out", None)
        assert batch["request_counts"] == {"total": 100, "completed": 96, "failed": 4}
        assert batch["usage"]["input_tokens"] == 7
        assert await jobs.active() == []
        assert await world.uses() == b"0"
        assert await jobs.claim(job, "me") is None


async def test_what_is_handed_in_by_who_lost_it_does_not_count(
    opened: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as world:
        jobs, job = world.jobs, await world.begun(1)
        monkeypatch.setattr(jobs_module, "LEASE_SECONDS", 0.001)
        lost = await world.claimed(job, "dead")
        await asyncio.sleep(0.01)
        monkeypatch.setattr(jobs_module, "LEASE_SECONDS", 10.0)
        taken = await world.claimed(job, "alive")
        assert taken.what == lost.what
        assert await jobs.renew(lost) == "lost"
        assert not await jobs.commit(lost, "dead-part", "*", "over", Counted(completed=64))
        assert await jobs.renew(taken) == "ok"
        assert await jobs.commit(taken, "part", "*", "over", Counted(completed=64))
        assert await jobs.parts(job) == ["part"]
        assert await world.field(job, "completed") == "64"


async def test_a_part_counts_once_however_often_it_is_handed_in(opened: Running) -> None:
    async with opened() as world:
        jobs, job = world.jobs, await world.begun(1)
        claim = await world.claimed(job)
        for _ in range(2):
            assert await jobs.commit(claim, "one", "f", "keep", Counted(completed=4))
        for _ in range(2):
            assert await jobs.commit(claim, "two", "ff", "free", Counted(completed=4))
        assert await jobs.parts(job) == ["one", "two"]
        assert await world.field(job, "completed") == "8"
        again = await world.claimed(job, "other")
        assert again.done == "ff"
        for _ in range(2):
            assert await jobs.commit(again, "three", "*", "over", Counted(completed=56))
        assert await world.field(job, "completed") == "64"
        assert await jobs.done(job) == {0: "*"}


async def test_a_file_that_is_not_good(opened: Running) -> None:
    async with opened() as world:
        job = await world.make()
        check = await world.claimed(job)
        assert await world.jobs.failed(check, [LineProblem("empty_file", "It is empty.")], FILE)
        shown = (await world.jobs.get("acme", job.id)).shown()
        assert shown["status"] == "failed"
        assert shown["errors"]["data"] == [
            {"code": "empty_file", "message": "It is empty.", "param": None, "line": None}
        ]
        assert await world.uses() == b"0"
        assert await world.jobs.claim(job, "me") is None
        assert await world.jobs.active() == []


async def test_cancelling_waits_for_what_runs_and_begins_nothing_more(opened: Running) -> None:
    async with opened() as world:
        jobs, job = world.jobs, await world.begun(3)
        running = await world.claimed(job)
        for _ in range(2):
            assert (await jobs.cancel("acme", job.id)).status == "cancelling"
        assert await jobs.claim(job, "other") is None
        assert await jobs.renew(running) == "cancelled"
        assert await jobs.commit(running, "part", "3", "over", Counted(completed=2))
        finish = await world.claimed(job)
        assert finish.what == FINISH
        assert await jobs.finish(finish, FILE, "file-out", "", 0)
        assert (await jobs.get("acme", job.id)).status == "cancelled"
        with pytest.raises(InvalidRequest, match="status 'cancelled'"):
            await jobs.cancel("acme", job.id)


async def test_cancelling_before_it_was_checked(opened: Running) -> None:
    async with opened() as world:
        jobs, job = world.jobs, await world.make()
        check = await world.claimed(job)
        await jobs.cancel("acme", job.id)
        assert await jobs.checked(check, 2, 100, "m", FILE)
        finish = await world.claimed(job)
        assert finish.what == FINISH
        assert await jobs.finish(finish, FILE, "", "", 0)
        assert (await jobs.get("acme", job.id)).status == "cancelled"


async def test_a_day_later(opened: Running) -> None:
    async with opened() as world:
        jobs, job = world.jobs, await world.begun(2)
        running = await world.claimed(job)
        await world.set_field(job, "expires_at", "1.0")
        assert await jobs.renew(running) == "expired"
        assert await jobs.commit(running, "", "0", "free", Counted())
        finish = await world.claimed(job)
        assert finish.what == FINISH
        assert await jobs.done(job) == {0: "0"}
        assert await jobs.finish(finish, FILE, "", "file-errors", 128)
        shown = (await jobs.get("acme", job.id)).shown()
        assert (shown["status"], shown["request_counts"]["failed"]) == ("expired", 128)
        assert shown["expired_at"] is not None


async def test_one_batch_for_each_idempotency_key(opened: Running) -> None:
    async with opened() as world:
        first = await world.make("key")
        assert await world.make("key") == first
        assert await world.make("other") != first
        with pytest.raises(InvalidRequest) as raised:
            await world.make("key", "/v1/embeddings")
        assert raised.value.param == "Idempotency-Key"
        assert len(await world.jobs.active()) == 2


async def test_what_cannot_be_made(opened: Running) -> None:
    async with opened() as world:
        with pytest.raises(FileMissing):
            await world.jobs.create("other", BatchRequest(FILE, "/v1/chat/completions", "key_1"), None)
        for _ in range(3):
            await world.make()
        with pytest.raises(RateLimited):
            await world.make()
        assert len(await world.jobs.active()) == 3


async def test_pages_and_what_is_not_there(opened: Running) -> None:
    async with opened() as world:
        made = [await world.make() for _ in range(3)]
        batches, more = await world.jobs.page("acme", Page(limit=2))
        assert ([batch.id for batch in batches], more) == ([made[2].id, made[1].id], True)
        batches, more = await world.jobs.page("acme", Page(after=made[1].id))
        assert ([batch.id for batch in batches], more) == ([made[0].id], False)
        assert await world.jobs.page("other", Page()) == ([], False)
        for tenant, batch_id in (("other", made[0].id), ("acme", "batch_x"), ("acme", "batch_" + "é" * 24)):
            with pytest.raises(BatchMissing):
                await world.jobs.get(tenant, batch_id)
            with pytest.raises(BatchMissing):
                await world.jobs.cancel(tenant, batch_id)


async def test_old_batches_are_forgotten(opened: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as world:
        job = await world.begun(1)
        await world.jobs.forget("acme")
        assert (await world.jobs.get("acme", job.id)).status == "in_progress"
        monkeypatch.setattr("gateway.jobs.batches.jobs.time.time", lambda: 4e9)
        await world.jobs.forget("acme")
        with pytest.raises(BatchMissing):
            await world.jobs.get("acme", job.id)
        # What is left of it in the list of those that have not ended goes with the next look.
        assert await world.jobs.claim(job, "me") is None
        assert await world.jobs.active() == []
