"""A replica's load, asked of the replica itself: a session of our own on its socket, as a worker would open one."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from protos import codec
from protos.types import PROTOCOL_VERSION, Load
from tests.e2e.stack import HANGS_SECONDS


class Observer:
    """Each look is a new session, since the first thing a session hears is the load of that moment."""

    def __init__(self, at: Path | str) -> None:
        """`at` is the replica's socket, or HOST:PORT."""
        self._channel = grpc.insecure_channel(at if isinstance(at, str) else f"unix:{at}")

    def __enter__(self) -> "Observer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._channel.close()

    def load(self) -> Load:
        enough = threading.Event()

        def hello() -> Iterator[bytes]:
            yield codec.encode_hello(codec.Hello(PROTOCOL_VERSION, "observer", False))
            enough.wait(HANGS_SECONDS)

        method: Any = self._channel.stream_stream(codec.SESSION_METHOD)
        call = method(hello(), timeout=HANGS_SECONDS, wait_for_ready=True)
        try:
            for data in call:
                message = codec.decode_down(data)
                if isinstance(message, codec.Step) and message.load is not None:
                    return message.load
        finally:
            enough.set()
            call.cancel()
        raise AssertionError("the replica said nothing of its load")

    def wait(self, check: Callable[[Load], bool], what: str) -> float:
        """Look until the load is as wished; gives the seconds it took."""
        started = time.monotonic()
        while not check(load := self.load()):
            assert time.monotonic() - started < HANGS_SECONDS, f"{what}: not within {HANGS_SECONDS:g} s, {load}"
        return time.monotonic() - started

    def wait_idle(self) -> float:
        return self.wait(is_idle, "the replica is idle")


def is_idle(load: Load) -> bool:
    return load.running == load.waiting == load.kv_blocks_used == load.tokens_in_flight == 0
