"""A file is seen to change however it is written, and only when it is written to its end."""

import os
from pathlib import Path

import pytest

from gateway.reload.watched_file import WatchedFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.yaml"
    path.write_text("one")
    return path


def stamped(path: Path, text: str, at: int) -> None:
    """Write in place; the clock of the file system may be coarse."""
    path.write_text(text)
    os.utime(path, ns=(at, at))


def test_nothing_is_told_of_a_file_that_stays(file: Path) -> None:
    watched = WatchedFile(file)
    assert [watched.look() for _ in range(3)] == [False] * 3


def test_a_file_that_is_still_written_is_waited_for(file: Path) -> None:
    watched = WatchedFile(file)
    stamped(file, "tw", 1)
    assert not watched.look()
    stamped(file, "two", 2)
    assert not watched.look()
    assert watched.look()
    assert not watched.look()


def test_a_rename_over_it_is_seen(file: Path, tmp_path: Path) -> None:
    watched = WatchedFile(file)
    other = tmp_path / "other"
    other.write_text("two")
    os.replace(other, file)
    assert [watched.look() for _ in range(3)] == [False, True, False]


def test_a_config_map_is_seen_to_change(tmp_path: Path) -> None:
    """Kubernetes: FILE -> ..data/FILE, and ..data -> a folder, which is exchanged by a rename."""
    for name in ("..v1", "..v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "penstock.yaml").write_text(name)
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "penstock.yaml").symlink_to("..data/penstock.yaml")
    watched = WatchedFile(tmp_path / "penstock.yaml")
    assert not watched.look()
    (tmp_path / "..data_tmp").symlink_to("..v2")
    os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
    assert [watched.look() for _ in range(3)] == [False, True, False]


def test_a_file_that_is_gone_for_a_moment_is_waited_for(file: Path) -> None:
    watched = WatchedFile(file)
    file.unlink()
    assert [watched.look() for _ in range(3)] == [False] * 3
    file.write_text("back again")
    assert [watched.look() for _ in range(3)] == [False, True, False]


def test_what_is_read_anyhow_is_not_told(file: Path) -> None:
    watched = WatchedFile(file)
    stamped(file, "two", 2)
    watched.read()
    assert [watched.look() for _ in range(3)] == [False] * 3
