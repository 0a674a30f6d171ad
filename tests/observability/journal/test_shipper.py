"""Sealed segments are given to a command until it has taken them."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import observability.journal.shipper as module
from observability.journal.folder import take_lock
from observability.journal.shipper import Shipper, unshipped
from tests.observability.journal.journals import append, chain_of, files, wait_for, written


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("journal")])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.005)


def script(folder: Path, body: str) -> tuple[str, ...]:
    path = folder / "ship.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return ("sh", str(path), "bucket")


def close(shipper: Shipper, seconds: float = 10.0) -> None:
    shipper.close(time.monotonic() + seconds)


def test_each_sealed_segment_is_shipped_once_and_in_order(tmp_path: Path) -> None:
    journal, shipped = tmp_path / "journal", tmp_path / "shipped"
    written(journal, segments_=3)
    shipper = Shipper(journal, script(tmp_path, f'echo "$1 $2" >> {shipped}'))
    shipper.start()
    wait_for(lambda: shipped.exists() and len(shipped.read_text().splitlines()) == 2)
    chain = chain_of(journal / "worker-0")
    append(chain, 0)
    chain.seal()
    chain.close()
    shipper.wake()
    wait_for(lambda: len(shipped.read_text().splitlines()) == 3)
    close(shipper)
    again = Shipper(journal, script(tmp_path, f'echo "$1 $2" >> {shipped}'))
    again.start()
    close(again)
    assert shipped.read_text().splitlines() == [f"bucket {path}" for path in files(journal)]


def test_a_command_that_fails_is_told_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal, tries = tmp_path / "journal", tmp_path / "tries"
    written(journal, segments_=2)
    shipper = Shipper(journal, script(tmp_path, f"echo x >> {tries}; test $(wc -l < {tries}) -ge 4"))
    shipper.start()
    wait_for(lambda: not unshipped(journal / "worker-0"))
    close(shipper)
    assert [record.message for record in caplog.records] == [
        f"cannot ship {files(journal)[0]}: sh ended with status 1; it is tried again until it arrives",
        "sealed segments of the audit journal are shipped again",
    ]


def test_a_command_that_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path, segments_=2)
    shipper = Shipper(tmp_path, ("/nowhere/ship",))
    shipper.start()
    wait_for(lambda: caplog.records)
    close(shipper)
    assert len(caplog.records) == 1
    assert "/nowhere/ship: No such file or directory" in caplog.records[0].message


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    written(tmp_path / "journal", segments_=2)
    shipper = Shipper(tmp_path / "journal", script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait"))
    shipper.start()
    wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    began = time.monotonic()
    close(shipper, 0.0)
    assert time.monotonic() - began < 5
    child = (tmp_path / "child").read_text().strip()
    wait_for(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text())
    assert unshipped(tmp_path / "journal" / "worker-0")


def test_one_process_ships(tmp_path: Path) -> None:
    written(tmp_path, segments_=2)
    lock = take_lock(tmp_path / "ship.lock")
    assert lock is not None
    shipper = Shipper(tmp_path, ("true",))
    shipper.start()
    close(shipper)
    assert unshipped(tmp_path / "worker-0")
    os.close(lock)


def test_a_folder_that_is_not_there_yet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shipper = Shipper(tmp_path / "journal", ("true",))
    shipper.start()
    close(shipper)
    assert caplog.records == []
