"""Weights read ahead: real files, whose pages are dropped from memory and found there again."""

import os
import threading
from pathlib import Path

import pytest

from replicas.fast_start import page_cache
from replicas.fast_start.page_cache import Preloaded, available_bytes, cached_bytes, preload, weight_files

MEGABYTE = 1 << 20


def checkpoint(folder: Path, **megabytes: float) -> Path:
    """A folder of weights that are on the disk alone."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for name, size in megabytes.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(os.urandom(int(size * MEGABYTE)))
        dropped(path)
    return folder


def dropped(path: Path) -> None:
    """Take a file's pages from memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = checkpoint(tmp_path / "weights", a_safetensors=5.3, b_safetensors=4, rank0_engine=3)
    if sum(map(cached_bytes, weight_files(made))):
        pytest.skip("this file system keeps its files in memory")
    return made


def test_the_files_of_weights(folder: Path) -> None:
    assert [path.name for path in weight_files(folder)] == ["a.safetensors", "b.safetensors", "rank0.engine"]
    with pytest.raises(NotADirectoryError, match="nowhere"):
        weight_files(folder / "nowhere")


def test_all_is_in_memory_then_and_nothing_is_read_twice(folder: Path) -> None:
    total = sum(path.stat().st_size for path in weight_files(folder))
    assert preload([folder]) == Preloaded(total, total, total)
    assert [cached_bytes(path) for path in weight_files(folder)] == [p.stat().st_size for p in weight_files(folder)]
    assert preload([folder]) == Preloaded(total, total, 0)
    dropped(folder / "b.safetensors")
    assert preload([folder]) == Preloaded(total, total, 4 * MEGABYTE)


def test_part_of_a_file_that_is_in_memory_is_counted_by_its_pages(folder: Path) -> None:
    path = folder / "b.safetensors"
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 1, MEGABYTE)
    assert 0 < cached_bytes(path) < path.stat().st_size


def test_it_stops_where_memory_gets_short_and_goes_on_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "CHUNK", MEGABYTE)
    left = [14 * MEGABYTE] * 4 + [6 * MEGABYTE] * 40
    found = preload([folder], available=lambda: left.pop(0), reserve=2 * MEGABYTE)
    assert found.read == 4 * MEGABYTE
    assert found.cached >= found.read
    assert found.problem.startswith("memory is short: 0.0 GB available")
    assert not preload([folder], available=lambda: 100 * MEGABYTE, reserve=0).problem


def test_the_first_folder_comes_first(folder: Path, tmp_path: Path) -> None:
    wanted = checkpoint(tmp_path / "wanted", c_safetensors=2)
    preload([wanted, folder], available=lambda: 2 * MEGABYTE, reserve=0)
    assert cached_bytes(wanted / "c.safetensors") == 2 * MEGABYTE
    assert not cached_bytes(folder / "a.safetensors")


def test_it_can_be_stopped(folder: Path) -> None:
    stop = threading.Event()
    stop.set()
    assert preload([folder], stop=stop).problem == "it was stopped"
    assert not cached_bytes(folder / "a.safetensors")


def test_an_empty_folder_and_an_empty_file_are_read(tmp_path: Path) -> None:
    assert preload([checkpoint(tmp_path / "none", a_safetensors=0)]) == Preloaded(0, 0, 0)


def test_the_machine_says_how_much_memory_is_available() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_bytes() < total
