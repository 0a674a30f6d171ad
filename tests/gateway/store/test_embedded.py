import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gateway.store.embedded import EmbeddedStore, EmbeddedStoreError
from gateway.store.lua_script import Script
from gateway.store.socket_path import socket_path
from gateway.store.store_client import Store
from tests.stores import value_of

SET = Script("return redis.call('SET', KEYS[1], ARGV[1])")

SUPERVISOR = """
import sys, time
from pathlib import Path
from gateway.store.embedded import EmbeddedStore
from tests.stores import value_of
store = EmbeddedStore(Path(sys.argv[1]))
store.start()
print(store.pid, flush=True)
time.sleep(600)
"""


def put(url: str, value: str) -> None:
    async def run() -> None:
        store = Store(url, timeout=10.0)
        await store.run(SET, ["k"], [value])
        await store.aclose()

    asyncio.run(run())


def read(url: str) -> bytes | None:
    async def run() -> bytes | None:
        store = Store(url, timeout=10.0)
        try:
            return await value_of(store, "k")
        finally:
            await store.aclose()

    return asyncio.run(run())


def gone(pid: int, within: float = 5.0) -> bool:
    """Whether a process that is not ours to wait for has ended; a zombie has."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def incremental_file(state_dir: Path) -> Path:
    (path,) = (state_dir / "store" / "appendonlydir").glob("*.incr.aof")
    return path


def test_data_outlives_a_stop_and_a_kill(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    put(server.url, "one")
    server.stop()
    server.stop()
    server.start()
    assert read(server.url) == b"one"
    put(server.url, "two")
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    server.start()
    assert read(server.url) == b"two"
    server.stop()


def test_a_second_start_of_the_same_state_says_who_has_it(state_dir: Path) -> None:
    first = EmbeddedStore(state_dir)
    first.start()
    put(first.url, "mine")
    with pytest.raises(EmbeddedStoreError) as caught:
        EmbeddedStore(state_dir).start()
    assert str(caught.value) == (
        f"{state_dir} is in use: a store runs there already (process {first.pid}); "
        "stop that gateway first, or give this one another `state`"
    )
    assert read(first.url) == b"mine"
    first.stop()


def test_a_killed_supervisor_leaves_no_store_and_the_next_start_works(state_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(state_dir)], stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        orphan = int(supervisor.stdout.readline())
        server = EmbeddedStore(state_dir)
        put(server.url, "kept")
        supervisor.kill()
    server.start()
    assert gone(orphan)
    assert read(server.url) == b"kept"
    server.stop()


def test_ctrl_c_does_not_reach_the_store(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    assert server.pid is not None
    assert os.getpgid(server.pid) != os.getpgid(0)
    server.stop()


def test_only_this_user_may_connect(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir / "new")
    server.start()
    assert (state_dir / "new").stat().st_mode & 0o077 == 0
    assert (state_dir / "new" / "store").stat().st_mode & 0o077 == 0
    assert (state_dir / "new" / "store.sock").stat().st_mode & 0o077 == 0
    server.stop()
    # Sockets are elsewhere then.
    long = state_dir / ("x" * 120)
    server = EmbeddedStore(long)
    server.start()
    server.stop()
    assert long.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["with space", "quo\"te'", "x" * 120, "ü" * 60])
def test_awkward_and_long_state_directories(state_dir: Path, name: str) -> None:
    server = EmbeddedStore(state_dir / name)
    server.start()
    put(server.url, "v")
    server.stop()
    server.start()
    assert read(server.url) == b"v"
    folder = socket_path(state_dir / name, "store.sock").parent
    assert folder.exists()
    server.stop()
    assert folder.exists() == (folder == state_dir / name)


def test_damaged_data_is_refused_in_one_line_that_names_it(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    server.stop()
    damaged = incremental_file(state_dir)
    damaged.write_bytes(b"not an append-only file\n" * 3)
    with pytest.raises(EmbeddedStoreError, match="Bad file format reading the append only file") as caught:
        server.start()
    assert damaged.name in str(caught.value)
    assert str(state_dir) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert server.pid is None
    damaged.unlink()
    damaged.mkdir()
    with pytest.raises(EmbeddedStoreError, match=damaged.name):
        server.start()


def test_a_torn_last_write_is_repaired(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    put(server.url, "whole")
    server.stop()
    with incremental_file(state_dir).open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nto")
    server.start()
    assert read(server.url) == b"whole"
    server.stop()


def test_a_state_directory_that_is_a_file(state_dir: Path) -> None:
    (state_dir / "file").write_text("")
    with pytest.raises(EmbeddedStoreError, match=f"the embedded store cannot start: {state_dir}/file.*"):
        EmbeddedStore(state_dir / "file").start()


def test_a_stale_socket_file_is_replaced(state_dir: Path) -> None:
    (state_dir / "store.sock").write_text("stale")
    server = EmbeddedStore(state_dir)
    server.start()
    put(server.url, "v")
    server.stop()


def test_a_long_log_is_turned_over(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.log_path.parent.mkdir(parents=True)
    server.log_path.write_bytes(b"x" * (1 << 20) + b"\n")
    server.start()
    server.stop()
    assert server.log_path.stat().st_size < 1 << 16
    assert server.log_path.with_suffix(".log.1").stat().st_size > 1 << 20


def test_starting_again_leaves_a_running_one_alone(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    first = server.pid
    server.start()
    assert server.pid == first
    server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_it_ends_with_the_thread_that_started_it(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    pid = server.pid
    assert pid is None or gone(pid)
    server.stop()
