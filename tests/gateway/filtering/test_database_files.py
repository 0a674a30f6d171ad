"""Compiled databases are kept on disk, and whatever happens to the files, a filter works."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

import safety.patterns
from gateway.filtering.database_files import MOST_FILES, DatabaseFiles
from safety.patterns import Patterns, keep_databases

WORDS = [f"word{number:03d}".encode() for number in range(40)]
KEY = "ab" * 32


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety.patterns, "_CACHE", [])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the databases that were compiled: each is saved."""
    keys: list[str] = []
    save = DatabaseFiles.save

    def counted(files: DatabaseFiles, key: str, data: bytes) -> None:
        keys.append(key)
        save(files, key, data)

    monkeypatch.setattr(DatabaseFiles, "save", counted)
    return keys


def find(words: list[bytes] = WORDS) -> list[tuple[int, int]]:
    return Patterns(words).ends(b"a word007 and a word039")


FOUND = [(7, 9), (39, 23)]


def databases(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.hyperscan"))


def test_a_database_is_compiled_once(tmp_path: Path, compiled: list[str]) -> None:
    folder = tmp_path / "state" / "filters"
    keep_databases(DatabaseFiles(folder))
    assert find() == FOUND
    keep_databases(DatabaseFiles(folder))
    assert find() == FOUND
    assert len(compiled) == 1
    [file] = databases(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_other_expressions_or_another_version_are_another_database(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_databases(DatabaseFiles(tmp_path))
    find()
    find([*WORDS[:-1], b"other"])
    monkeypatch.setattr(safety.patterns, "_VERSION", "0.0")
    find()
    assert len(compiled) == 3
    assert len(databases(tmp_path)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: b"\x80\x04" + data,
    ],
)
def test_a_damaged_file_is_replaced(tmp_path: Path, compiled: list[str], damage) -> None:  # type: ignore[no-untyped-def]
    keep_databases(DatabaseFiles(tmp_path))
    find()
    [file] = databases(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert find() == FOUND
    assert len(compiled) == 2
    assert find() == FOUND
    assert len(compiled) == 2


def test_a_whole_file_that_is_no_database_is_replaced(tmp_path: Path, compiled: list[str]) -> None:
    files = DatabaseFiles(tmp_path)
    keep_databases(files)
    find()
    [file] = databases(tmp_path)
    key = file.name.partition("-")[0]
    files.save(key, b"something else")
    assert files.load(key) == b"something else"
    assert find() == FOUND
    assert find() == FOUND
    assert len(compiled) == 3


def test_files_that_others_could_write_are_not_used(tmp_path: Path, compiled: list[str]) -> None:
    keep_databases(DatabaseFiles(tmp_path))
    find()
    [file] = databases(tmp_path)
    file.chmod(0o666)
    assert find() == FOUND
    assert len(compiled) == 2
    target = tmp_path / "elsewhere"
    file.rename(target)
    file.symlink_to(target)
    assert find() == FOUND
    assert len(compiled) == 3


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_no_failure(
    tmp_path: Path, compiled: list[str], problem: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep_databases(DatabaseFiles(tmp_path))

    def refuse(_: int) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(os, "fsync", refuse)
    assert find() == FOUND
    assert find() == FOUND
    assert len(compiled) == 2
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    assert os.strerror(problem) in caplog.text


def test_a_place_that_is_no_directory_is_no_failure(tmp_path: Path, compiled: list[str]) -> None:
    (tmp_path / "file").write_text("x")
    keep_databases(DatabaseFiles(tmp_path / "file"))
    assert find() == FOUND
    assert len(compiled) == 1


def test_the_oldest_files_are_deleted(tmp_path: Path) -> None:
    files = DatabaseFiles(tmp_path)
    for number in range(MOST_FILES + 3):
        files.save(f"{number:032x}", b"x")
        os.utime(files._path(f"{number:032x}"), (number, number))
    files.save(KEY, b"y")
    assert len(databases(tmp_path)) == MOST_FILES
    assert files.load(KEY) == b"y"
    assert files.load(f"{0:032x}") is None


def test_one_process_compiles_while_others_wait(tmp_path: Path) -> None:
    seen: list[bytes | None] = []
    waits = threading.Event()

    def another() -> None:
        files = DatabaseFiles(tmp_path)
        waits.set()
        with files.lock(KEY):
            seen.append(files.load(KEY))

    files = DatabaseFiles(tmp_path)
    with files.lock(KEY):
        thread = threading.Thread(target=another)
        thread.start()
        assert waits.wait(10)
        files.save(KEY, b"x")
    thread.join(10)
    assert seen == [b"x"]
