"""A replica in a process of its own that freezes, and a worker that stalls."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protos.errors import ReplicaUnavailable
from replicas import replica_server as server
from routing.fleet.fleet import Fleet
from routing.health.patience import TICK_SECONDS
from routing.health.replica_status import State
from routing.transports import mux
from tests.harness import MODEL, drained, spec_of, submit_of
from tests.loops import seconds_until, until

pytestmark = pytest.mark.slow


@pytest.fixture
def replica(state_dir: Path) -> Iterator[tuple[int, str]]:
    """The process id and the address of a replica whose steps take 20 ms."""
    address = f"unix:{state_dir}/r.sock"
    command = [
        sys.executable,
        "-m",
        "gateway.cli.main",
        "replica",
        "--engine",
        "simulated",
        "--model",
        MODEL,
        "--tp",
        "2",
    ]
    process = subprocess.Popen([*command, "--pace-ms", "20", "--listen", address], stderr=subprocess.DEVNULL)
    try:
        yield process.pid, address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()


def test_a_replica_speaks_three_times_before_it_counts_as_silent_and_that_is_within_two_seconds() -> None:
    speaks = server.HEARTBEAT_SECONDS + server.MAX_SILENCE_SECONDS
    assert speaks <= 0.5
    assert 3 * speaks <= mux.SILENCE_SECONDS
    assert mux.SILENCE_SECONDS + TICK_SECONDS < 2.0


async def test_a_frozen_replica_is_noticed_within_two_seconds_and_comes_back(replica: tuple[int, str]) -> None:
    pid, address = replica

    fleet = Fleet([spec_of(address)], "test")
    fleet.start()
    try:
        await fleet.wait_ready(1)
        for streams in (1, 0):
            open_streams = [fleet.open("pool/0", submit_of(5000)) for _ in range(streams)]
            for stream in open_streams:
                await stream.receive()
            os.kill(pid, signal.SIGSTOP)
            assert await seconds_until(lambda: not fleet.ready) < 2.0
            for stream in open_streams:
                with pytest.raises(ReplicaUnavailable):
                    await drained(stream)
            await asyncio.sleep(0.5)
            assert fleet.statuses()[0].state is State.CONNECTING
            os.kill(pid, signal.SIGCONT)
            await until(lambda: fleet.ready)
            tokens, _ = await drained(fleet.open("pool/0", submit_of(3)))
            assert len(tokens[0]) == 3
    finally:
        await fleet.aclose()


async def test_a_workers_own_stall_is_nobodys_silence(replica: tuple[int, str]) -> None:
    _, address = replica

    fleet = Fleet([spec_of(address)], "test")
    fleet.start()
    try:
        await fleet.wait_ready(1)
        stream = fleet.open("pool/0", submit_of(300))  # of six seconds, which outlast the stalls
        reading = asyncio.create_task(drained(stream))
        for seconds in (2.5, 0.6, 0.6, 0.6, 0.6, 0.6):
            await asyncio.sleep(0.01)
            time.sleep(seconds)  # noqa: ASYNC251 (a stall is what is tested)
        tokens, _ = await reading
        assert len(tokens[0]) == 300
        assert fleet.statuses()[0].state is State.READY
    finally:
        await fleet.aclose()
