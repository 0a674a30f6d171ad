"""A tenant's files: a record and its content come and go together, whatever fails between them."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.config.files import Files as FileSettings
from gateway.jobs.files.content import PIECE_BYTES, Contents
from gateway.jobs.files.content_keys import tenant_key
from gateway.jobs.files.file_records import FileRecord, Purpose, new_file_id
from gateway.jobs.files.file_store import DAY_SECONDS, UNFINISHED_SECONDS, Files, Page, open_content
from gateway.jobs.files.local_content import LocalContent, LocalSink
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import (
    BodyTooLarge,
    Conflict,
    ContentUnavailable,
    FileMissing,
    InvalidRequest,
    StorageFull,
    StoreUnavailable,
)

_HSET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
_HGET = Script("return redis.call('HGET', KEYS[1], ARGV[1])")
_SCORES = Script("return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')")
_ZADD = Script("return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])")

Test = Callable[["World"], Awaitable[None]]


class World:
    """A store and a folder, and the files in both."""

    def __init__(self, store: Store, folder: Path, clock: Callable[[], float] | None = None) -> None:
        self.store, self.folder = store, folder
        self.contents = Contents(lambda: open_content(str(folder)))
        settings = FileSettings(keep_days=2, max_tenant_bytes=1 << 20, max_tenant_files=3)
        self.files = Files(store, self.contents, settings) if clock is None else self._with(settings, clock)

    def _with(self, settings: FileSettings, clock: Callable[[], float]) -> Files:
        return Files(self.store, self.contents, settings, clock)

    async def make(
        self, data: bytes = b"content", purpose: Purpose = "batch", *, seconds: int | None = None, bounded: bool = True
    ) -> FileRecord:
        new = self.files.upload("acme")
        try:
            await new.content.write(data)
            return await self.files.finish(new, "in.jsonl", purpose, seconds, bounded=bounded)
        finally:
            await new.content.abort()

    async def read(self, record: FileRecord, tenant: str = "acme") -> bytes:
        return b"".join([piece async for piece in self.files.pieces(tenant, record)])

    async def total(self) -> int:
        found = await self.store.run(_HGET, [tenant_key("acme", "totals")], ["bytes"])
        return int(found) if isinstance(found, bytes) else 0

    async def doomed(self) -> dict[str, float]:
        """Content that is to be removed, with when."""
        found = await self.store.run(_SCORES, [tenant_key("acme", "doomed")], [])
        assert isinstance(found, list)
        return {name.decode(): float(score) for name, score in zip(found[::2], found[1::2], strict=True)}

    @property
    def content(self) -> list[str]:
        """All content, finished or not."""
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())


async def in_world(store_url: str, tmp_path: Path, test: Test, clock: Callable[[], float] | None = None) -> None:
    store = Store(store_url, timeout=10.0)
    world = World(store, tmp_path / "files", clock)
    try:
        await test(world)
    finally:
        await world.contents.aclose()
        await store.aclose()


async def test_a_file_from_its_upload_to_its_end(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        data = os.urandom(2 * PIECE_BYTES + 17)
        record = await world.make(data)
        assert (record.bytes, record.filename, record.purpose, record.ends) == (len(data), "in.jsonl", "batch", False)
        assert record.expires_at == record.created_at + 2 * DAY_SECONDS
        assert await world.files.get("acme", record.id) == record
        assert await world.read(record) == data
        assert (await world.total(), await world.doomed()) == (len(data), {})
        await world.files.delete("acme", record.id)
        with pytest.raises(FileMissing):
            await world.files.get("acme", record.id)
        with pytest.raises(FileMissing):
            await world.files.delete("acme", record.id)
        assert (world.content, await world.total(), await world.doomed()) == ([], 0, {})

    await in_world(store_url, tmp_path, test)


async def test_files_of_other_tenants_and_ids_that_are_none_are_not_there(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        record = await world.make()
        for tenant, file_id in (("other", record.id), ("acme", new_file_id()), ("acme", "../../" + record.id)):
            with pytest.raises(FileMissing) as caught:
                await world.files.get(tenant, file_id, "input_file_id")
            assert caught.value.param == "input_file_id"
        with pytest.raises(FileMissing) as caught:
            await world.files.get("acme", "x" * 1000)
        assert len(caught.value.message) < 200
        with pytest.raises(ContentUnavailable):
            await world.read(record, "other")

    await in_world(store_url, tmp_path, test)


async def test_the_bounds_of_a_tenant_leave_nothing_of_what_exceeds_them(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        with pytest.raises(BodyTooLarge):
            await world.make(b"x" * (1 << 20) + b"x")
        assert (world.content, await world.total(), await world.doomed()) == ([], 0, {})
        made = [await world.make() for _ in range(3)]
        with pytest.raises(BodyTooLarge):
            await world.make()
        assert world.content == sorted(record.id for record in made)
        beyond = await world.make(b"results", "batch_output", bounded=False)
        assert await world.read(beyond) == b"results"
        await world.files.delete("acme", beyond.id)
        await world.files.delete("acme", made[0].id)
        await world.make()

    await in_world(store_url, tmp_path, test)


async def test_an_upload_that_is_given_up_leaves_nothing(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        new = world.files.upload("acme")
        await new.content.write(b"x" * PIECE_BYTES)
        assert len(world.content) == 1
        for _ in range(2):
            await new.content.abort()
        assert (world.content, await world.doomed()) == ([], {})

    await in_world(store_url, tmp_path, test)


async def test_what_a_killed_worker_leaves_is_swept(store_url: str, tmp_path: Path) -> None:
    """Its content has been written, and no record of it."""

    async def test(world: World) -> None:
        new = world.files.upload("acme")
        await new.content.write(b"content")
        begun = await world.files.begin("acme", new.id)
        await new.content.commit()
        ((name, when),) = (await world.doomed()).items()
        assert when == pytest.approx(begun + UNFINISHED_SECONDS, abs=0.01)
        await world.files.sweep()
        assert world.content == [new.id], "it may still become a file"
        await world.store.run(_ZADD, [tenant_key("acme", "doomed")], ["1", name])
        await world.files.sweep()
        assert (world.content, await world.doomed()) == ([], {})

    await in_world(store_url, tmp_path, test)


async def test_a_full_disk_leaves_no_file(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(sink: LocalSink, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/place")

    async def test(world: World) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LocalSink, "write", full)
            with pytest.raises(StorageFull) as caught:
                await world.make()
        assert "/secret" not in caught.value.message
        assert (world.content, await world.total()) == ([], 0)
        assert (await world.files.page("acme", Page()))[0] == []
        await world.make()

    await in_world(store_url, tmp_path, test)


async def test_content_that_cannot_be_removed_is_removed_by_a_later_sweep(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(content: LocalContent, name: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def test(world: World) -> None:
        record = await world.make()
        with monkeypatch.context() as patch:
            patch.setattr(LocalContent, "delete", away)
            with pytest.raises(ContentUnavailable):
                await world.files.delete("acme", record.id)
        with pytest.raises(FileMissing):
            await world.files.get("acme", record.id)
        assert world.content == [record.id]
        assert len(await world.doomed()) == 1
        await world.files.sweep()
        assert (world.content, await world.doomed()) == ([], {})

    await in_world(store_url, tmp_path, test)


async def test_a_file_ends_with_its_time_and_while_a_batch_reads_it_only_for_clients(
    store_url: str, tmp_path: Path
) -> None:
    now = 0.0

    async def test(world: World) -> None:
        nonlocal now
        record = await world.make(seconds=3600)
        assert (record.ends, record.expires_at) == (True, record.created_at + 3600)
        now = record.expires_at - 0.5
        assert await world.files.get("acme", record.id) == record
        now = record.expires_at
        with pytest.raises(FileMissing):
            await world.files.get("acme", record.id)
        assert await world.files.page("acme", Page()) == ([], False)
        assert await world.files.find("acme", record.id) == record
        # By the store's clock its end is now, too.
        await world.store.run(_ZADD, [tenant_key("acme", "ends")], ["1", record.id])
        await world.store.run(_HSET, [tenant_key("acme", "uses")], [record.id, "1"])
        await world.files.sweep()
        assert await world.files.find("acme", record.id) == record
        assert await world.read(record) == b"content"
        await world.store.run(_HSET, [tenant_key("acme", "uses")], [record.id, "0"])
        await world.files.sweep()
        assert await world.files.find("acme", record.id) is None
        assert (world.content, await world.total()) == ([], 0)

    await in_world(store_url, tmp_path, test, lambda: now)


async def test_a_file_that_a_batch_reads_is_not_deleted(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        record = await world.make()
        await world.store.run(_HSET, [tenant_key("acme", "uses")], [record.id, "1"])
        with pytest.raises(Conflict):
            await world.files.delete("acme", record.id)
        assert await world.read(record) == b"content"

    await in_world(store_url, tmp_path, test)


async def test_pages_by_time_and_purpose(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        made = [await world.make(purpose=purpose) for purpose in ("batch", "user_data", "batch")]
        files = world.files
        assert await files.page("acme", Page()) == (made[::-1], False)
        assert await files.page("acme", Page(ascending=True, limit=2)) == (made[:2], True)
        assert await files.page("acme", Page(after=made[1].id, ascending=True)) == ([made[2]], False)
        assert await files.page("acme", Page(), "batch") == ([made[2], made[0]], False)
        assert await files.page("other", Page()) == ([], False)
        with pytest.raises(InvalidRequest) as caught:
            await files.page("acme", Page(after=new_file_id()))
        assert caught.value.param == "after"
        assert await files.tenants() == ["acme"]

    await in_world(store_url, tmp_path, test)


async def test_content_that_is_gone_is_the_gateways_fault(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        record = await world.make()
        await asyncio.to_thread((world.folder / "files" / "acme" / record.id).unlink)
        with pytest.raises(ContentUnavailable):
            await world.read(record)
        # It can still be deleted.
        await world.files.delete("acme", record.id)

    await in_world(store_url, tmp_path, test)


async def test_a_record_that_cannot_be_read_is_the_stores_fault(store_url: str, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        record = await world.make()
        await world.store.run(_HSET, [tenant_key("acme", "files")], [record.id, "not json"])
        with pytest.raises(StoreUnavailable):
            await world.files.get("acme", record.id)

    await in_world(store_url, tmp_path, test)
