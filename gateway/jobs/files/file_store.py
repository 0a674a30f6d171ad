"""A tenant's files: their records in the store together with their content."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from gateway.config.files import Files as FileSettings
from gateway.jobs.files.content import Contents, FileContent, Upload
from gateway.jobs.files.content_keys import TENANTS, content_name, tenant_key
from gateway.jobs.files.file_records import PURPOSES, FileRecord, Purpose, is_file_id, new_file_id
from gateway.jobs.files.local_content import LocalContent
from gateway.store.lua_script import Script
from protos.errors import BodyTooLarge, Conflict, FileMissing, InvalidRequest, StoreUnavailable

_BEGIN = Script.load("gateway.jobs.files", "lua/begin.lua")
_ADD = Script.load("gateway.jobs.files", "lua/add.lua")
_REMOVE = Script.load("gateway.jobs.files", "lua/remove.lua")
_PAGE = Script.load("gateway.jobs.files", "lua/page.lua")
_DUE = Script.load("gateway.jobs.files", "lua/due.lua")
_GET = Script("return redis.call('HGET', KEYS[1], ARGV[1])")
_KNOW = Script("return redis.call('HSETNX', KEYS[1], ARGV[1], '')")
_GONE = Script("return redis.call('ZREM', KEYS[1], ARGV[1])")

DAY_SECONDS: Final = 86_400.0
#: Seconds after which unfinished content is removed.
UNFINISHED_SECONDS: Final = 7200.0
#: Bound on a tenant's files that one round removes.
_MOST_DUE: Final = 100


class Storage(Protocol):
    """The store's methods that files need; both raise StoreUnavailable."""

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """Return all fields of a hash; empty where there is none."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and return its reply."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: the id before its first item, its length, and its order of creation."""

    after: str = ""
    limit: int = 20
    ascending: bool = False


class Files:
    """Any method may raise StoreUnavailable; those with content StorageFull and ContentUnavailable."""

    def __init__(
        self,
        storage: Storage,
        contents: Contents,
        settings: FileSettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` counts seconds since 1970."""
        self.contents = contents
        self.settings = settings
        self._storage = storage
        self._clock = clock

    def upload(self, tenant: str) -> "NewFile":
        """Begin a new file; `finish` makes it one."""
        file_id = new_file_id()
        return NewFile(file_id, tenant, Upload(self.contents, content_name(tenant, file_id)))

    async def finish(
        self, new: "NewFile", filename: str, purpose: Purpose, seconds: int | None, *, bounded: bool = True
    ) -> FileRecord:
        """Make a file of an upload, for so many seconds or the longest lifetime; `bounded` by the tenant's limits.

        Raises BodyTooLarge where the tenant has too much.
        """
        created = await self.begin(new.tenant, new.id)
        await new.content.commit()
        lasts = self.settings.keep_days * DAY_SECONDS if seconds is None else float(seconds)
        record = FileRecord(
            new.id, new.content.size, created, created + lasts, filename, purpose, ends=seconds is not None
        )
        try:
            await self.add(new.tenant, record, bounded=bounded)
        except BodyTooLarge:
            await self._erase(new.tenant, content_name(new.tenant, new.id))
            raise
        return record

    async def begin(self, tenant: str, file_id: str) -> float:
        """Note that content is about to be written; return the store's time."""
        await self._storage.run(_KNOW, [TENANTS], [tenant])
        name = content_name(tenant, file_id)
        now = await self._storage.run(_BEGIN, [tenant_key(tenant, "doomed")], [name, str(UNFINISHED_SECONDS)])
        return float(cast("bytes", now))

    async def add(self, tenant: str, record: FileRecord, *, bounded: bool) -> None:
        """Add the record of a file whose content is written. Raises BodyTooLarge where the tenant has too much."""
        keys = [
            tenant_key(tenant, *parts) for parts in (("files",), ("listed",), ("listed", record.purpose), ("totals",))
        ]
        keys += [tenant_key(tenant, "ends"), tenant_key(tenant, "doomed")]
        most = (str(self.settings.max_tenant_bytes), str(self.settings.max_tenant_files)) if bounded else ("", "")
        times = (f"{record.created_at:.6f}", f"{record.expires_at:.6f}")
        name = content_name(tenant, record.id)
        arguments = (record.id, msgspec.json.encode(record), str(record.bytes), *times, name, *most)
        reply = await self._storage.run(_ADD, keys, arguments)
        if reply == b"bytes":
            raise BodyTooLarge(f"Your files would be longer than {most[0]} bytes together. Delete some first.")
        if reply == b"files":
            raise BodyTooLarge(f"You have {most[1]} files already. Delete some first.")

    async def get(self, tenant: str, file_id: str, param: str = "file_id") -> FileRecord:
        """Return a file's record. Raises FileMissing."""
        record = await self.find(tenant, file_id)
        if record is None or record.expires_at <= self._clock():
            shown = file_id if len(file_id) <= 128 else file_id[:128] + "..."
            raise FileMissing(f"No such File object: {shown}", param=param)
        return record

    async def find(self, tenant: str, file_id: str) -> FileRecord | None:
        """Return a file's record, even of an expired file."""
        if not is_file_id(file_id):
            return None
        raw = await self._storage.run(_GET, [tenant_key(tenant, "files")], [file_id])
        return None if raw is None else _record(cast("bytes", raw))

    async def page(self, tenant: str, page: Page, purpose: Purpose | None = None) -> tuple[list[FileRecord], bool]:
        """Return a page of a tenant's files, and whether there are more. Raises InvalidRequest."""
        listed = tenant_key(tenant, "listed") if purpose is None else tenant_key(tenant, "listed", purpose)
        found, more = await page_of(self._storage, [listed, tenant_key(tenant, "files")], page, "File")
        records = [_record(raw) for raw in found if raw]
        return [record for record in records if record.expires_at > self._clock()], more

    def pieces(self, tenant: str, record: FileRecord) -> AsyncIterator[bytes]:
        """Yield the content, piece by piece."""
        return self.contents.pieces(content_name(tenant, record.id), record.bytes)

    async def delete(self, tenant: str, file_id: str) -> None:
        """Delete a file. Raises FileMissing, and Conflict while a batch reads it."""
        await self._remove(tenant, await self.get(tenant, file_id))

    async def tenants(self) -> list[str]:
        """List the tenants that have or had files."""
        return sorted(name.decode() for name in await self._storage.hgetall(TENANTS))

    async def sweep(self) -> None:
        """Remove expired files and unfinished content."""
        for tenant in await self.tenants():
            keys = [tenant_key(tenant, name) for name in ("doomed", "ends", "uses")]
            reply = cast("list[bytes]", await self._storage.run(_DUE, keys, [str(_MOST_DUE)]))
            count = int(reply[0])
            for file_id in reply[1 + count :]:
                record = await self.find(tenant, file_id.decode())
                if record is not None:
                    await self._remove(tenant, record)
            for name in reply[1 : 1 + count]:
                await self._erase(tenant, name.decode())

    async def _remove(self, tenant: str, record: FileRecord) -> None:
        keys = [tenant_key(tenant, name) for name in ("files", "totals", "uses", "ends", "doomed", "listed")]
        keys += [tenant_key(tenant, "listed", purpose) for purpose in PURPOSES]
        name = content_name(tenant, record.id)
        reply = await self._storage.run(_REMOVE, keys, [record.id, str(record.bytes), name])
        if reply == b"missing":
            raise FileMissing(f"No such File object: {record.id}", param="file_id")
        if reply == b"used":
            raise Conflict(f"{record.id} is in use by a batch that has not ended. Cancel it first.", param="file_id")
        await self._erase(tenant, name)

    async def _erase(self, tenant: str, name: str) -> None:
        await self.contents.delete(name)
        await self._storage.run(_GONE, [tenant_key(tenant, "doomed")], [name])


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is being written."""

    id: str
    tenant: str
    content: Upload


async def page_of(storage: Storage, keys: list[str], page: Page, kind: str) -> tuple[list[bytes], bool]:
    """Return a page of a sorted set's items, and whether there are more. Raises InvalidRequest."""
    order = "asc" if page.ascending else "desc"
    reply = await storage.run(_PAGE, keys, [page.after, str(page.limit), order])
    if reply == b"":
        shown = page.after if len(page.after) <= 128 else page.after[:128] + "..."
        raise InvalidRequest(f"Invalid value for 'after': no such {kind} object: {shown}", param="after")
    more, *found = cast("list[bytes]", reply)
    return found, more == b"1"


def open_content(location: str) -> FileContent:
    """Open the content store at a folder or an address."""
    if "://" not in location:
        return LocalContent(Path(location))
    from gateway.jobs.files.remote_content import RemoteContent  # an extra

    return RemoteContent(location)


def _record(raw: Any) -> FileRecord:
    try:
        return msgspec.json.decode(raw, type=FileRecord)
    except msgspec.DecodeError as error:
        raise StoreUnavailable("The gateway's store holds a file's record that cannot be read.") from error
