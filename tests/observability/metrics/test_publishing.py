"""How a worker's numbers get to its file: beside the event loop, and whatever becomes of the disk."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from observability.metrics import declarations as declared
from observability.metrics import publishing
from observability.metrics.merge import Merged, read
from observability.metrics.metrics_folder import SUFFIX, clear, replace
from observability.metrics.publishing import Publisher
from observability.metrics.series_slots import claim
from observability.metrics.snapshot import Numbers
from observability.metrics.tenant_series import Wanted
from tests.loops import until
from tests.observability.metrics.records import record, sink_of


class Counted:
    """A source, and whether it breaks."""

    def __init__(self) -> None:
        self.broken = False

    def collect(self, numbers: Numbers) -> None:
        if self.broken:
            raise KeyError("broken")
        numbers.set(declared.IN_FLIGHT, 7)


def publisher_of(folder: Path, *sources: Counted, sink: object = None) -> Publisher:
    chosen = sink or sink_of()
    return Publisher(folder, chosen, sources, workers=1, tenants=200)  # type: ignore[arg-type]


def files(folder: Path, suffix: str) -> list[Path]:
    return list(folder.glob(f"*{suffix}"))


def total(merged: Merged) -> float:
    return sum(merged.numbers.values.get(declared.REQUESTS.name, {}).values())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "WRITE_SECONDS", 0.01)


@pytest.mark.usefixtures("quick")
async def test_it_writes_again_and_again_and_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, sink = tmp_path / "new" / "metrics", sink_of()
    publisher = publisher_of(folder, Counted(), sink=sink)
    running = asyncio.create_task(publisher.run())
    sink.take([record()])
    await until(lambda: total(read(folder)) == 1)
    seen = read(folder)
    assert (seen.pids, seen.parent) == ([os.getpid()], os.getppid())
    assert abs(seen.started - time.time()) < 60
    assert seen.numbers.values[declared.IN_FLIGHT.name] == {(): 7}
    assert {view["kind"] for view in seen.recent} == {"routed"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    sink.take([record()])
    await publisher.aclose()
    await publisher.aclose()
    seen = read(folder)
    assert (total(seen), seen.pids) == (2, [])
    assert publisher.counts() == {"telemetry_dropped_total": 0}
    assert not caplog.records


async def test_a_place_is_asked_for_again_while_others_are_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = [0]

    def busy_at_first(folder: Path, wanted: Wanted, most: int) -> list[str] | None:
        tries[0] += 1
        return claim(folder, wanted, most) if tries[0] > 3 else None

    monkeypatch.setattr(publishing, "claim", busy_at_first)

    sink = sink_of()
    publisher = publisher_of(tmp_path, sink=sink)
    sink.take([record()])
    await publisher.publish()
    assert total(read(tmp_path)) == 1
    await publisher.publish()
    assert tries == [4], "there is nothing more to ask for"
    await publisher.aclose()


async def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = sink_of()
    publisher = publisher_of(tmp_path, sink=sink)
    await publisher.publish()
    (path,) = files(tmp_path, SUFFIX)
    before = path.read_bytes()
    for _ in range(3):
        # Every write to it fails, as on a disk without room.
        path.with_name(path.name + ".part").symlink_to("/dev/full")
        sink.take([record()])
        await publisher.publish()
        assert path.read_bytes() == before
        assert not files(tmp_path, ".part")
    assert publisher.counts() == {"telemetry_dropped_total": 3}
    await publisher.publish()
    assert total(read(tmp_path)) == 3, "nothing is lost but time"
    await publisher.aclose()
    assert [line.getMessage().split(":")[0] for line in caplog.records] == [
        "metrics cannot be written, requests go on",
        "metrics are written again",
    ]
    assert "No space left" in caplog.records[0].getMessage()


async def test_a_folder_that_is_gone_or_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, sink = tmp_path / "metrics", sink_of()
    folder.write_text("a file")
    publisher = publisher_of(folder, sink=sink)
    sink.take([record()])
    for _ in range(3):
        await publisher.publish()
    folder.unlink()
    await publisher.publish()
    assert total(read(folder)) == 1
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    await publisher.publish()
    seen = read(folder)
    assert (total(seen), seen.pids) == (1, [os.getpid()])
    await publisher.aclose()
    assert len(caplog.records) == 2


async def test_a_part_that_breaks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = Counted()
    publisher = publisher_of(tmp_path, source)
    source.broken = True
    for _ in range(3):
        await publisher.publish()
    source.broken = False
    await publisher.publish()
    assert read(tmp_path).numbers.values[declared.IN_FLIGHT.name] == {(): 7}
    await publisher.aclose()
    assert len(caplog.records) == 2


async def test_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, calls = threading.Event(), []

    def stuck(path: Path, data: bytes) -> None:
        calls.append(len(data))
        hanging.wait(20)

    monkeypatch.setattr(publishing, "replace", stuck)
    monkeypatch.setattr(publishing, "WRITE_SECONDS", 0.001)
    monkeypatch.setattr(publishing, "CLOSE_SECONDS", 0.05)

    sink = sink_of()
    publisher = publisher_of(tmp_path, sink=sink)
    running = asyncio.create_task(publisher.run())
    await until(lambda: calls)
    for _ in range(100):
        sink.take([record()])
        await asyncio.sleep(0)
    assert len(calls) == 1, "nothing gathers behind it"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await publisher.aclose()
    hanging.set()
    assert ["is slow" in line.getMessage() for line in caplog.records] == [True]


def test_what_cannot_be_made_whole_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace(path, b"whole")
    path.with_name("file.part").mkdir()
    with pytest.raises(IsADirectoryError):
        replace(path, b"other")
    assert path.read_bytes() == b"whole"
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        replace(tmp_path / "gone" / "file", b"")


def test_a_killed_worker_has_lost_what_it_had_not_written_and_no_more(tmp_path: Path) -> None:
    clear(tmp_path)
    for turn in range(1, 4):
        command = [sys.executable, "-m", "tests.observability.metrics.dying_worker", str(tmp_path), "5"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"written\n"
            seen = read(tmp_path)
            assert (total(seen), seen.pids) == (5 * turn, [worker.pid])
            worker.send_signal(signal.SIGKILL)
        seen = read(tmp_path)
        assert (total(seen), seen.pids) == (5 * turn, [])
        assert seen.numbers.values[declared.WORKER_RESTARTS.name] == {(): turn - 1}
    assert len(files(tmp_path, SUFFIX)) == 1, "each that begins folds those before it"
