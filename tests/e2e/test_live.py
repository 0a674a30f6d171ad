"""Looks at a running gateway: over the admin port, and by `penstock top`."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.raw import ask, chat
from tests.e2e.stack import HANGS_SECONDS, HEEDING, PENSTOCK, Stack, eventually, rss
from tests.e2e.test_admin import admin, admin_key, up

EVENT = b"event: live\ndata: "


def look(stack: Stack) -> Any:
    status, _, body = admin(stack, "GET", "/admin/live?once=1")
    assert status == 200, body
    return json.loads(body)


def viewer(stack: Stack) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", stack.admin_port), timeout=HANGS_SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    key = admin_key(stack)
    connection.sendall(f"GET /admin/live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    return connection


def read_until(connection: socket.socket, wanted: Callable[[bytes], bool]) -> bytes:
    data = b""
    while not wanted(data):
        chunk = connection.recv(1 << 16)
        assert chunk, data
        data += chunk
    return data


def test_a_look_shows_what_happens(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    look(stack)
    for _ in range(5):
        assert ask(stack, chat(max_tokens=5))[0] == 200
    assert ask(stack, chat(model="nobody"))[0] == 404

    live: Any = None

    def shown() -> bool:
        nonlocal live
        live = look(stack)
        outcomes = live["headline"]["outcomes"] or {}
        seen = live["headline"]["requests_per_second"] and "invalid" in outcomes and live["routes"]
        return bool(seen and not live["problems"])

    eventually(shown, "the requests are seen")
    (model,) = live["models"]
    (row,) = model["pools"][0]["replicas"]
    assert (row["id"], row["state"]) == ("narrow/0", "ready")
    assert live["routes"][0]["policy"] == "auto"
    assert "model_not_found" in [error["code"] for error in live["errors"]]
    assert "default" in [tenant["name"] for tenant in live["tenants"]]


def test_streams_and_one_that_stalls(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    (pid,) = stack.admins
    before = rss(pid)
    stalled = [viewer(stack) for _ in range(8)]
    with viewer(stack) as connection:
        data = read_until(connection, lambda data: data.count(EVENT) >= 4)
    head, _, rest = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: text/event-stream" in head.lower()
    events = re.findall(rb"data: (\{.*\})\n\n", rest)
    # One look begins a second after the last one; how long it takes is the machine's.
    times = [json.loads(event)["time"] for event in events]
    assert all(late - early > 0.9 for early, late in zip(times, times[2:], strict=False))
    assert rss(pid) - before < 30 << 20
    for one in stalled:
        one.close()
    assert look(stack)["headline"]["in_flight"] is not None


def test_a_stop_ends_streams_at_once(start: Callable[..., Stack]) -> None:
    # They do not wait for what a worker waits for, which is longer than this connection does.
    stack = start(workers=1, listen="drain_seconds: 60")
    eventually(lambda: up(stack), "the admin API is up")
    with viewer(stack) as connection:
        read_until(connection, lambda data: EVENT in data)
        (pid,) = stack.admins
        os.kill(pid, signal.SIGTERM)
        data = b""
        while chunk := connection.recv(1 << 16):
            data += chunk
            if data.endswith(b"0\r\n\r\n"):
                break
        assert data.endswith(b"0\r\n\r\n"), "the stream ends as it should"
    assert "Traceback" not in stack.errors


def test_top_once(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    done = stack.run("top", "--once")
    assert done.returncode == 0, done.stderr
    assert "narrow/0" in done.stdout
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 200 for line in done.stdout.splitlines())


def test_top_in_a_terminal_ends_with_ctrl_c(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    main, child = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [*HEEDING, str(PENSTOCK), "top", "--config", str(stack.config)]
    with subprocess.Popen(
        command,
        stdin=child,
        stdout=child,
        stderr=child,
        env=environment,
    ) as process:
        os.close(child)
        try:
            shown = _shown_until(main, b"narrow/0")
            assert b"penstock top" in shown
            process.send_signal(signal.SIGINT)
            rest = _shown_until(main, b"\x1b[?1049l")
            assert b"Traceback" not in rest, rest
            assert process.wait(HANGS_SECONDS) == 130
        finally:
            process.kill()
            os.close(main)


def _shown_until(terminal: int, wanted: bytes) -> bytes:
    data, deadline = b"", time.monotonic() + HANGS_SECONDS
    while wanted not in data:
        assert time.monotonic() < deadline, data
        if select.select([terminal], [], [], 0.1)[0]:
            with suppress(OSError):
                data += os.read(terminal, 1 << 16)
    return data


@pytest.mark.parametrize("more", [[], ["--once"]])
def test_top_without_a_gateway(more: list[str], start: Callable[..., Stack]) -> None:
    if not more:
        done = subprocess.run([PENSTOCK, "top"], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "penstock top: the output is no terminal; print once with: penstock top --once\n"
        return
    stack = start(workers=1)
    eventually(lambda: up(stack), "the admin API is up")
    stack.signal(signal.SIGTERM)
    assert stack.wait() == 0
    done = stack.run("top", *more)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"penstock top: no gateway answers at http://127.0.0.1:{stack.admin_port}: ")
    (stack.state_dir / "admin.key").unlink()
    assert "there is no admin key at" in stack.run("top", *more).stderr
