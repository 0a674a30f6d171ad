"""A process in wait: one order, from who may write to its socket, and whatever else comes there."""

import contextlib
import json
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from replicas.fast_start.standby import LONGEST, OrderRefused, give_order, is_waiting, wait_for_order
from tests.loops import SOON_SECONDS

Taken = list[Sequence[str]]


class Waiting:
    """A thread that waits for an order; options with `bad` among them are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken: Taken = []
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()
        self._until(path.is_socket)

    def _wait(self) -> None:
        self.taken.append(wait_for_order(self.path, self._take))

    def _take(self, options: Sequence[str]) -> Sequence[str]:
        if "bad" in options:
            raise ValueError("bad is no option")
        return options

    def _until(self, holds: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(int(SOON_SECONDS / 0.005)):
            if holds():
                return
            pause.wait(0.005)
        raise AssertionError("it does not come true")

    def join(self) -> Taken:
        self._thread.join(SOON_SECONDS)
        assert not self._thread.is_alive()
        return self.taken


@pytest.fixture
def waiting(state_dir: Path) -> Waiting:
    return Waiting(state_dir / "wait.sock")


def sent(path: Path, data: bytes) -> bytes:
    """What is answered to bytes, up to the end of the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SOON_SECONDS)
        connection.connect(str(path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_an_order_is_taken_once_and_the_socket_is_gone_then(waiting: Waiting) -> None:
    assert stat.S_IMODE(waiting.path.stat().st_mode) == 0o600
    give_order(waiting.path, ["--model", "m"])
    assert not waiting.path.exists()
    assert waiting.join() == [["--model", "m"]]
    with pytest.raises(FileNotFoundError):
        give_order(waiting.path, ["--model", "n"])


def test_after_a_refusal_it_waits_on(waiting: Waiting) -> None:
    with pytest.raises(OrderRefused, match="bad is no option"):
        give_order(waiting.path, ["bad"])
    assert is_waiting(waiting.path)
    give_order(waiting.path, ["good"])
    assert waiting.join() == [["good"]]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{\n", "truncated"),
        (b'{"arguments": 1}\n', "Expected `array`"),
        (b"{}\n", "missing required field"),
        (b"x" * (LONGEST + 1), "at most"),
    ],
)
def test_what_is_no_order_is_answered_and_survived(waiting: Waiting, data: bytes, problem: str) -> None:
    assert problem in json.loads(sent(waiting.path, data))["problem"]
    give_order(waiting.path, ["good"])
    assert waiting.join() == [["good"]]


def test_whoever_connects_and_says_nothing_or_half_of_it_is_survived(waiting: Waiting) -> None:
    assert sent(waiting.path, b"") == b""
    assert sent(waiting.path, b'{"arguments": ["a"') == b""
    give_order(waiting.path, ["good"])
    assert waiting.join() == [["good"]]


def test_the_second_of_two_orders_at_once_is_not_taken(waiting: Waiting) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first, socket.socket(socket.AF_UNIX) as second:
        for connection in (first, second):
            connection.connect(str(waiting.path))
        second.sendall(b'{"arguments": ["second"]}\n')
        first.sendall(b'{"arguments": ["first"]}\n')
        assert json.loads(first.recv(4096)) == {"problem": ""}
        assert waiting.join() == [["first"]]
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = second.recv(4096)
        assert answer == b""


def test_the_socket_of_a_process_that_is_gone_is_replaced(state_dir: Path) -> None:
    path = state_dir / "wait.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    assert not is_waiting(path)
    thread = threading.Thread(target=wait_for_order, args=(path, list), daemon=True)
    thread.start()
    while not is_waiting(path):
        threading.Event().wait(0.005)
    with pytest.raises(OSError, match="another process waits there"):
        wait_for_order(path, list)
    give_order(path, [])
    thread.join(SOON_SECONDS)


def test_a_path_that_no_socket_can_have_is_named(state_dir: Path) -> None:
    with pytest.raises(OSError, match="at most 106 bytes"):
        wait_for_order(state_dir / ("x" * 108), list)
    with pytest.raises(OSError, match=r"nowhere.*No such file"):
        wait_for_order(state_dir / "nowhere" / "s", list)
