"""The sink: bounded, never waiting, and clear about what fails."""

import asyncio
import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import observability.journal.chain
import observability.journal.journal_sink as module
from observability.journal.entries import request_lines
from observability.journal.journal_sink import Journal, request_journal
from observability.journal.signer import read_key
from observability.record import RequestRecord
from tests.observability.journal.journals import (
    Clock,
    events,
    files,
    ids,
    problems,
    record_of,
    settings_of,
    wait_for,
)

Use = Callable[[Journal[RequestRecord]], Awaitable[None]]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("journal")])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.02)


def run(
    folder: Path, use: Use, *, clock: Callable[[], float] = time.monotonic, **fields: Any
) -> Journal[RequestRecord]:
    """A journal between its start and its end."""

    async def main() -> Journal[RequestRecord]:
        journal = Journal(settings_of(folder, **fields), "worker", lines=request_lines, clock=clock)
        journal.start()
        try:
            await use(journal)
        finally:
            await journal.aclose()
            await journal.aclose()
        return journal

    return asyncio.run(main())


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def broken(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_what_is_taken_is_written_in_order_and_sealed_at_the_end(tmp_path: Path) -> None:
    async def use(journal: Journal[RequestRecord]) -> None:
        journal.take([])
        for start in range(0, 3000, 700):
            journal.take([record_of(number) for number in range(start, start + 700)])
        await until(lambda: journal.written == 3500)
        journal.take([record_of(3500)])

    journal = run(tmp_path, use)
    assert ids(tmp_path / "journal") == [f"req_{number}" for number in range(3501)]
    assert problems(tmp_path / "journal", read_key(tmp_path / "key")) == []
    assert [path.name[16:] for path in files(tmp_path / "journal")] == ["-00000001.ndjson.zst"]
    counts = journal.counts()
    assert (counts["journal_records_total"], counts["journal_unwritten_records"]) == (3501, 0)
    assert counts["journal_bytes_total"] > 0 == counts["journal_failures_total"] == counts["telemetry_dropped_total"]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_two_processes_have_two_chains_and_the_next_goes_on_with_the_first(tmp_path: Path) -> None:
    async def use(journal: Journal[RequestRecord]) -> None:
        journal.take([record_of(1)])
        await until(lambda: journal.written)
        other = request_journal(settings_of(tmp_path))
        other.start()
        other.take([record_of(2)])
        await until(lambda: other.written)
        await other.aclose()

    run(tmp_path, use)
    run(tmp_path, use)
    assert sorted(path.parent.name for path in files(tmp_path / "journal")) == ["worker-0"] * 2 + ["worker-1"] * 2
    assert problems(tmp_path / "journal", read_key(tmp_path / "key")) == []


async def test_records_that_find_no_room_are_counted_and_the_journal_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 100)

    journal = request_journal(settings_of(tmp_path))
    for number in range(30):
        journal.take([record_of(number * 10 + place) for place in range(10)])
    assert (journal.lost, journal.counts()["journal_unwritten_records"]) == (200, 100)
    journal.start()
    await until(lambda: journal.written == 100)
    journal.take([record_of(number) for number in range(1000, 1010)])
    await journal.aclose()
    assert ids(tmp_path / "journal") == [f"req_{number}" for number in (*range(100), *range(1000, 1010))]
    assert events(tmp_path / "journal") == ["opened", "lost"]
    assert [record.message for record in caplog.records] == [
        "the audit journal cannot be written fast enough; 10 records were lost so far"
    ]


def test_the_writer_does_not_wait_for_its_time_while_many_records_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 400)
    monkeypatch.setattr(module, "RETRY_SECONDS", 60.0)

    async def use(journal: Journal[RequestRecord]) -> None:
        for number in range(40):
            journal.take([record_of(number * 50 + place) for place in range(50)])
            await until(lambda: journal.counts()["journal_unwritten_records"] < 200)
        assert journal.lost == 0

    assert run(tmp_path, use, flush_seconds=60.0).written == 2000


def test_long_texts_of_clients_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 100_000)
    journal = request_journal(settings_of(tmp_path))
    text = "x" * 1_000_000
    for number in range(200):
        journal.take([record_of(number, asked_model=text)])
    kept = journal.counts()["journal_unwritten_records"]
    # As much of each as a line has.
    assert 100_000 // 1500 < kept < 100_000 // 512
    assert journal.lost == 200 - kept


@pytest.mark.parametrize(("call", "number"), [("pwrite", errno.ENOSPC), ("fsync", errno.EIO), ("open", errno.EROFS)])
def test_a_disk_that_takes_nothing_is_told_once_and_nothing_is_lost_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str, number: int
) -> None:
    async def use(journal: Journal[RequestRecord]) -> None:
        journal.take([record_of(0)])
        await until(lambda: journal.written == 1)
        with monkeypatch.context() as patch:
            if call == "open":
                patch.setattr(os, "pwrite", broken(number))
            patch.setattr(os, call, broken(number))
            journal.take([record_of(1)])
            await until(lambda: journal.counts()["journal_failures_total"] >= 3)
            assert journal.refusing
            journal.take([record_of(2)])
        await until(lambda: journal.written == 3)
        await until(lambda: not journal.refusing)

    run(tmp_path, use, refuse=True)
    assert ids(tmp_path / "journal") == ["req_0", "req_1", "req_2"]
    assert problems(tmp_path / "journal", read_key(tmp_path / "key")) == []
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert os.strerror(number) in said[0]
    assert "new requests are refused" in said[0]
    assert said[1] == "the audit journal is written again; 0 records were lost so far"


@pytest.mark.parametrize("what", ["age", "size"])
def test_a_segment_that_cannot_be_sealed_is_told_once_though_nothing_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    async def use(journal: Journal[RequestRecord]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(observability.journal.chain.Chain, "seal", broken(errno.ENOSPC))
            journal.take([record_of(0)])
            await until(lambda: journal.written)
            clock.now += 61
            await until(lambda: journal.refusing)
            failures = journal.counts()["journal_failures_total"]
            seen = []
            while journal.counts()["journal_failures_total"] < failures + 5:
                seen.append(journal.refusing)
                await asyncio.sleep(0.002)
            assert all(seen)
        await until(lambda: not journal.refusing)

    clock = Clock()
    due = {"segment_seconds": 60.0} if what == "age" else {"segment_bytes": 1}
    run(tmp_path, use, clock=clock, refuse=True, **due)
    assert [record.message for record in caplog.records] == [
        f"cannot write the audit journal in {tmp_path / 'journal'}: No space left on device; "
        "new requests are refused until it can be written",
        "the audit journal is written again; 0 records were lost so far",
    ]
    assert problems(tmp_path / "journal", read_key(tmp_path / "key")) == []


def test_a_folder_that_is_removed_just_before_the_end_is_said(tmp_path: Path) -> None:
    async def use(journal: Journal[RequestRecord]) -> None:
        journal.take([record_of(0)])
        await until(lambda: journal.written == 1)
        shutil.rmtree(tmp_path / "journal")

    run(tmp_path, use)
    assert "missing" in events(tmp_path / "journal")


def test_a_folder_that_cannot_be_made_and_then_can(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "journal").write_text("not a folder")

    async def use(journal: Journal[RequestRecord]) -> None:
        journal.take([record_of(0)])
        await until(lambda: journal.counts()["journal_failures_total"])
        assert not journal.refusing
        (tmp_path / "journal").unlink()
        await until(lambda: journal.written)

    run(tmp_path, use)
    assert ids(tmp_path / "journal") == ["req_0"]
    assert "requests go on" in caplog.records[0].message


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "key").write_text("0" * 64)
    (tmp_path / "key").chmod(0o644)

    async def use(journal: Journal[RequestRecord]) -> None:
        await until(lambda: journal.counts()["journal_failures_total"])
        (tmp_path / "key").chmod(0o600)
        journal.take([record_of(0)])
        await until(lambda: journal.written)

    run(tmp_path, use)
    assert "chmod 600" in caplog.records[0].message


async def test_a_disk_that_hangs_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)
    hang, hung, real = threading.Event(), threading.Event(), os.fsync
    clock = Clock()

    def fsync(descriptor: int) -> None:
        hung.set()
        hang.wait()
        real(descriptor)

    journal = Journal(
        settings_of(tmp_path, refuse=True, flush_seconds=0.0),
        "worker",
        lines=request_lines,
        clock=clock,
    )
    journal.start()
    journal.take([record_of(0)])
    await until(lambda: journal.written)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        journal.take([record_of(1)])
        await until(hung.is_set)
        refusing = [journal.refusing]
        clock.now += 6
        assert [*refusing, journal.refusing] == [False, True]
        journal.take([record_of(2)])
        await journal.aclose()
        journal.take([record_of(3)])
        assert (journal.written, journal.lost) == (1, 1)
        hang.set()
    said = [record.message for record in caplog.records]
    assert (
        said[0]
        == "the disk of the audit journal has not answered for 5 s; new requests are refused until it can be written"
    )
    assert said[1] == "the audit journal could not be finished: 2 records are not in it"
    assert len(said) == 3


def test_a_defect_of_an_entry_does_not_end_the_thread(tmp_path: Path) -> None:
    async def use(journal: Journal[RequestRecord]) -> None:
        journal.take([record_of(0), record_of(1, wall=float("nan")), record_of(2)])
        await until(lambda: journal.written == 2)
        assert journal.lost == 1

    run(tmp_path, use)
    assert (ids(tmp_path / "journal"), events(tmp_path / "journal")) == (
        ["req_0", "req_2"],
        ["opened", "lost"],
    )


async def test_closing_without_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        journal = request_journal(settings_of(tmp_path))
        journal.take([record_of(0)])
        await journal.aclose()
    assert [record.message for record in caplog.records] == [
        "the audit journal could not be finished: 1 records are not in it"
    ]
