"""What every place for files' content must do: a folder of this machine, and an S3-compatible store."""

import errno
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.jobs.files.content import Contents, FileContent, Upload
from gateway.jobs.files.local_content import LocalContent
from gateway.jobs.files.remote_content import RemoteContent
from protos.errors import ContentUnavailable, StorageFull

BUCKET = "content"


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """An S3 server with an empty bucket, and how to reach it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}", "skip_instance_cache": True}
    import s3fs

    s3fs.S3FileSystem(**options).mkdir(BUCKET)
    yield options
    server.stop()


@pytest.fixture(params=["local", "s3"])
def content(request: pytest.FixtureRequest, tmp_path: Path) -> FileContent:
    if request.param == "local":
        return LocalContent(tmp_path / "files")
    return RemoteContent(f"s3://{BUCKET}/{secrets.token_hex(4)}", request.getfixturevalue("s3"))


def put(content: FileContent, name: str, *pieces: bytes) -> None:
    sink = content.create(name)
    for piece in pieces:
        sink.write(piece)
    sink.commit()


def test_what_was_written_is_read(content: FileContent) -> None:
    put(content, "files/acme/one", b"abc", b"", b"defgh")
    assert content.read("files/acme/one", 0, 100) == b"abcdefgh"
    assert content.read("files/acme/one", 2, 3) == b"cde"
    assert content.read("files/acme/one", 6, 100) == b"gh"
    assert content.read("files/acme/one", 3, 0) == b""


def test_long_content_goes_out_in_parts(content: FileContent) -> None:
    piece = secrets.token_bytes(1 << 20)
    put(content, "long", *[piece] * 9)
    assert content.read("long", (8 << 20) - 5, 10) == (piece + piece)[(1 << 20) - 5 : (1 << 20) + 5]


def test_nobody_sees_it_before_it_is_complete(content: FileContent) -> None:
    sink = content.create("a/b")
    sink.write(b"some")
    with pytest.raises(FileNotFoundError):
        content.read("a/b", 0, 10)
    sink.commit()
    sink.abort()
    assert content.read("a/b", 0, 10) == b"some"


def test_what_is_given_up_leaves_what_was_there(content: FileContent) -> None:
    put(content, "a/b", b"before")
    sink = content.create("a/b")
    sink.write(b"x" * (9 << 20))
    sink.abort()
    sink.abort()
    assert content.read("a/b", 0, 10) == b"before"


def test_what_is_written_again_is_the_new(content: FileContent) -> None:
    put(content, "a/b", b"before")
    put(content, "a/b", b"after")
    assert content.read("a/b", 0, 10) == b"after"


def test_deleting(content: FileContent) -> None:
    for name in ("a/one", "a/deep/two", "ab", "b"):
        put(content, name, b"some")
    content.delete("b")
    content.delete("b")
    content.delete("a/")
    content.delete("nothing/")
    for name in ("a/one", "a/deep/two", "b", "never"):
        with pytest.raises(FileNotFoundError):
            content.read(name, 0, 10)
    assert content.read("ab", 0, 10) == b"some"


async def test_an_upload_by_the_event_loop(content: FileContent) -> None:
    contents = Contents(lambda: content)
    try:
        upload = Upload(contents, "up")
        for _ in range(10):
            await upload.write(b"0123456789" * 10_000)
        await upload.commit()
        await upload.abort()
        assert upload.size == 1_000_000
        pieces = [piece async for piece in contents.pieces("up", upload.size)]
        assert b"".join(pieces) == b"0123456789" * 100_000
        given_up = Upload(contents, "down")
        await given_up.write(b"x" * 300_000)
        await given_up.abort()
        with pytest.raises(ContentUnavailable):
            await contents.read("down", 0, 1)
    finally:
        await contents.aclose()


class Full:
    """A disk without room; it notes what becomes of what was begun."""

    def __init__(self, folder: Path) -> None:
        self._real = LocalContent(folder)
        self.read, self.delete = self._real.read, self._real.delete

    def create(self, name: str) -> Any:
        sink = self._real.create(name)

        class FullSink:
            commit, abort = sink.commit, sink.abort

            def write(self, data: bytes) -> None:
                sink.write(data[:10])
                raise OSError(errno.ENOSPC, "No space left on device", "/a/secret/path")

        return FullSink()


async def test_a_full_disk_is_told_without_paths_and_leaves_nothing(tmp_path: Path) -> None:
    contents = Contents(lambda: Full(tmp_path))
    try:
        upload = Upload(contents, "up")
        with pytest.raises(StorageFull) as raised:
            await upload.write(b"x" * 300_000)
        await upload.abort()
        assert "secret" not in raised.value.message
        with pytest.raises(StorageFull):
            await contents.put("small", b"x")
    finally:
        await contents.aclose()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # noqa: ASYNC240 (nobody waits meanwhile)


@pytest.mark.parametrize("opened", [lambda: LocalContent(Path("/dev/null/no"))])
async def test_a_place_that_is_not_there_is_tried_again(opened: Callable[[], FileContent]) -> None:
    contents = Contents(opened)
    try:
        for _ in range(2):
            with pytest.raises(ContentUnavailable):
                await contents.read("a", 0, 1)
    finally:
        await contents.aclose()


def test_what_a_killed_process_left_goes_after_a_day(tmp_path: Path) -> None:
    import os

    LocalContent(tmp_path).create("a").write(b"left")
    (left,) = (tmp_path / ".unfinished").iterdir()
    LocalContent(tmp_path)
    assert left.exists()
    os.utime(left, (1, 1))
    LocalContent(tmp_path)
    assert not left.exists()
