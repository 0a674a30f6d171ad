"""What is sealed and removed, and when."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from observability.journal.chain_writer import MAINTAIN_SECONDS, ChainWriter
from observability.journal.entries import request_lines
from observability.journal.folder import chain_folders, is_held
from observability.journal.retention import due_for_removal
from observability.journal.segment import segments
from observability.journal.signer import create_key
from tests.observability.journal.journals import (
    Clock,
    append,
    chain_of,
    checked,
    events,
    files,
    lines_of,
    problems,
    record_of,
    settings_of,
)

#: Files get the system's time.
WALL = time.time()


class Bench:
    """A keeper whose clocks stand still."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.clock = Clock()
        self.journal = folder / "journal"
        self.settings = settings_of(folder, **{"key_file": None, **fields})
        self.keeper = ChainWriter(self.settings, "worker", wall=self.wall, clock=self.clock)

    def wall(self) -> float:
        return WALL + self.clock.now - 1000.0

    def write(self, number: int = 0) -> None:
        lines = request_lines([record_of(number)])
        self.keeper.append(lines.data, lines.entries, [])

    def segment(self, number: int, age: float) -> None:
        """A segment that was sealed some time ago."""
        self.write(number)
        self.keeper.seal()
        path = files(self.journal)[-1]
        os.utime(path, (self.wall() - age,) * 2)

    def look(self) -> None:
        self.clock.now += MAINTAIN_SECONDS
        self.keeper.maintain()

    def numbers(self, kind: str = "worker-0") -> list[int]:
        return [segment.number for segment in segments(self.journal / kind)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, keep_seconds=1000.0, segment_seconds=100.0)
    yield bench
    bench.keeper.close()
    assert not [chain for chain in chain_folders(bench.journal) if is_held(chain)]


def test_old_segments_are_removed_a_few_at_a_time(bench: Bench) -> None:
    for number in range(7):
        bench.segment(number, age=2000 - number)
    bench.segment(7, age=10)
    bench.look()
    assert bench.numbers() == [5, 6, 7, 8, 9]
    bench.clock.now += 1
    bench.keeper.maintain()
    assert bench.numbers() == [8, 9]
    assert problems(bench.journal, None) == []
    removed = [line["detail"] for line in lines_of(bench.journal) if line.get("event") == "removed"]
    assert removed == ["segments 1 to 4: older than is kept", "segments 5 to 7: older than is kept"]


def test_an_old_segment_is_sealed_even_when_nothing_comes(bench: Bench) -> None:
    bench.write()
    bench.clock.now += 99
    bench.keeper.maintain()
    assert [path.name[16:] for path in files(bench.journal)] == ["-00000001.open.ndjson.zst"]
    bench.clock.now += 1
    bench.keeper.maintain()
    assert [path.name[16:] for path in files(bench.journal)] == ["-00000001.ndjson.zst"]


def test_a_segment_that_is_long_enough_is_sealed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=2000)
    while not bench.numbers() or segments(bench.journal / "worker-0")[0].path.stat().st_size < 2000:
        assert [each.open for each in segments(bench.journal / "worker-0")] in ([], [True])
        bench.write()
        bench.keeper.maintain()
    assert [each.open for each in segments(bench.journal / "worker-0")] == [False]
    bench.keeper.close()


def test_a_clock_that_is_set_forward_removes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.segment(0, age=10)
    monkeypatch.setattr(bench, "wall", lambda: WALL * 2)
    bench.look()
    assert bench.numbers() == [1]


def test_beyond_the_bytes_that_are_kept_the_oldest_of_all_chains_goes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_seconds=1e9)
    for number in range(4):
        bench.segment(number, age=100 - number)
    own = segments(bench.journal / "worker-0")
    sizes = [segment.path.stat().st_size for segment in own]

    def due(keep: int) -> list[int]:
        found, why = due_for_removal(own, bench.journal, keep_bytes=keep, before=0.0)
        assert why == "more bytes than are kept"
        return [segment.number for segment in found]

    assert due(sum(sizes)) == []
    assert due(sum(sizes) - 1) == [1]
    assert due(sum(sizes) - sizes[0] - 1) == [1, 2]
    assert due(0) == [1, 2, 3, 4]
    # Another process has an older one: that goes first, and this process does not remove it.
    shutil.copytree(bench.journal / "worker-0", bench.journal / "worker-1")
    for place, segment in enumerate(segments(bench.journal / "worker-1")):
        os.utime(segment.path, (bench.wall() - 98.5 - 100 * (place == 0),) * 2)
    assert due(2 * sum(sizes) - 1) == []
    assert due(2 * sum(sizes) - sizes[0] - 1) == []
    bench.keeper.close()


def test_chains_that_nobody_writes_to_any_more_are_sealed_and_removed_too(bench: Bench) -> None:
    chain = chain_of(bench.journal / "worker-7", bench.keeper._signer)
    append(chain, 0)
    chain.close()
    held = chain_of(bench.journal / "worker-8", bench.keeper._signer)
    append(held, 0)
    held.close()
    for name in ("worker-7", "worker-8"):
        path = segments(bench.journal / name)[0].path
        os.utime(path, (bench.wall() - 500,) * 2)
    lock = os.open(bench.journal / "worker-8" / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    bench.look()
    os.close(lock)
    assert [each.open for each in segments(bench.journal / "worker-7")] == [False]
    assert [each.open for each in segments(bench.journal / "worker-8")] == [True]
    os.utime(segments(bench.journal / "worker-7")[0].path, (bench.wall() - 2000,) * 2)
    bench.look()
    # What is left says what was removed.
    assert bench.numbers("worker-7") == [2]
    assert problems(bench.journal, None) == []
    bench.look()
    assert bench.numbers("worker-7") == [2]


def test_a_folder_that_another_process_has_now_is_left_to_it(bench: Bench) -> None:
    bench.write()
    shutil.rmtree(bench.journal)
    other = ChainWriter(bench.settings, "worker")
    other.maintain()
    with pytest.raises(OSError):
        bench.write(1)
    bench.write(1)
    assert [path.parent.name for path in files(bench.journal)] == ["worker-1"]
    other.close()


def said(bench: Bench, event: str) -> list[str]:
    return [line["detail"] for line in lines_of(bench.journal) if line.get("event") == event]


@pytest.mark.parametrize("what", ["all", "sealed", "idle"])
def test_a_chain_that_is_removed_while_it_is_written_is_said_in_the_next_one(bench: Bench, what: str) -> None:
    bench.write()
    bench.write(1)
    chain = segments(bench.journal / "worker-0")[0].chain.hex()
    if what == "sealed":
        bench.keeper.seal()
    shutil.rmtree(bench.journal)
    with pytest.raises(OSError):
        bench.look() if what == "idle" else bench.write(2)
    bench.keeper.maintain()
    told = f"chain {chain} was removed or exchanged while it was written; its last block was 2"
    assert said(bench, "missing") == [told]
    assert len(problems(bench.journal, None)) == 1
    bench.write(3)
    assert len(said(bench, "missing")) == 1


def test_a_chain_whose_files_are_removed_while_it_is_written_goes_on_and_says_so(bench: Bench) -> None:
    bench.write()
    bench.write(1)
    for path in (bench.journal / "worker-0").iterdir():
        if path.name != "lock":
            path.unlink()
    with pytest.raises(OSError):
        bench.write(2)
    bench.write(2)
    assert said(bench, "missing") == ["the end is cut: block 2 was acknowledged and is not there"]
    assert "segments 1 to 1 before it are missing" in problems(bench.journal, None)


def test_what_was_removed_is_said_however_often_the_new_chain_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write()
    shutil.rmtree(bench.journal)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("mkdir", "pwrite", "fsync", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            for _ in range(2):
                with pytest.raises(OSError):
                    bench.write(1)
    bench.write(1)
    assert len(said(bench, "missing")) == 1


def test_a_chain_that_was_removed_from_its_folder_is_said(bench: Bench) -> None:
    bench.write()
    bench.keeper.close()
    for path in (bench.journal / "worker-0").iterdir():
        path.unlink()
    bench.write(1)
    assert said(bench, "missing") == ["the head file is gone: blocks may be missing before this one"]
    assert len(problems(bench.journal, None)) == 1


def test_a_folder_is_held_from_the_moment_it_is_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, held = Path.rename, []

    def rename(path: Path, target: Path) -> Path:
        held.append(is_held(path))
        # Another process is faster.
        if len(held) == 1:
            other = ChainWriter(bench.settings, "worker")
            other.maintain()
            others.append(other)
        return real(path, target)

    others: list[ChainWriter] = []
    monkeypatch.setattr(Path, "rename", rename)
    bench.write()
    assert (held[:2], [path.parent.name for path in files(bench.journal)]) == ([True, True], ["worker-1"])
    assert said(bench, "missing") == []
    assert sorted(path.name for path in bench.journal.iterdir()) == ["worker-0", "worker-1"]
    others[0].close()


def test_the_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.key"
    secret = create_key(path)
    assert (create_key(path), len(secret), path.stat().st_mode & 0o777) == (secret, 32, 0o600)
    assert [each.name for each in path.parent.iterdir()] == ["journal.key"]


def test_the_newest_segment_stays_where_there_is_nothing_to_say(bench: Bench) -> None:
    bench.look()
    assert (events(bench.journal), checked(bench.journal, None).problems) == ([], [])


def test_old_segments_that_cannot_be_removed_are_told_once_and_harm_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    bench.segment(0, age=2000)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        for _ in range(3):
            bench.look()
        bench.write(1)
    assert [record.message for record in caplog.records] == [
        "cannot remove old segments of the audit journal: [Errno 1] Operation not permitted"
    ]
    bench.look()
    assert (bench.numbers(), problems(bench.journal, None)) == ([2, 3], [])
