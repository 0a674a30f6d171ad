"""Lets a benchmark begin and end counts in a worker, over a Unix socket."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import msgspec

from loadtest.cost.bytecode_counter import BytecodeCounter, FunctionLaps, bytecode_counter
from loadtest.load.processes import BenchError

_ANSWER_SECONDS = 30.0


def serve_counter(path: str) -> None:
    """Count this process's bytecodes from now on whenever a `CounterClient` asks for it. Returns at once."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    ready = threading.Event()
    counter: list[BytecodeCounter] = []

    def run() -> None:
        ready.wait()
        while True:
            client, _ = server.accept()
            with client, client.makefile("rb") as lines:
                for line in lines:
                    found = _obey(counter[0], line)
                    client.sendall(msgspec.json.encode(found) + b"\n")

    # Started before the counter is there, so that it is not counted itself.
    threading.Thread(target=run, name="bytecode counter", daemon=True).start()
    counter.append(bytecode_counter())
    ready.set()


def _obey(counter: BytecodeCounter, command: bytes) -> list[FunctionLaps]:
    if command == b"end\n":
        return counter.end()
    if command == b"begin\n":
        counter.begin()
    else:
        counter.lap()
    return []


class CounterClient:
    """The benchmark's end of a worker's counter."""

    def __init__(self, path: str) -> None:
        """Connect. Raises BenchError."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_ANSWER_SECONDS)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise BenchError(f"the worker's bytecode counter does not answer: {error}") from None
        self._answers = self._socket.makefile("rb")

    def begin(self) -> None:
        """Start the first lap."""
        self._ask(b"begin\n")

    def lap(self) -> None:
        """End a lap and start the next one."""
        self._ask(b"lap\n")

    def end(self) -> list[FunctionLaps]:
        """Stop at the end of a lap; return all laps."""
        return msgspec.json.decode(self._ask(b"end\n"), type=list[FunctionLaps])

    def close(self) -> None:
        """Disconnect."""
        self._answers.close()
        self._socket.close()

    def _ask(self, line: bytes) -> bytes:
        try:
            self._socket.sendall(line)
            answer = self._answers.readline()
        except OSError as error:
            raise BenchError(f"the worker's bytecode counter does not answer: {error}") from None
        if not answer.endswith(b"\n"):
            raise BenchError("the worker has ended while it was counted")
        return answer


@contextlib.contextmanager
def connected(path: str) -> Iterator[CounterClient]:
    """Connect to a worker's counter during the block."""
    client = CounterClient(path)
    try:
        yield client
    finally:
        client.close()
