"""Probes a worker's event loop from outside: how long it takes to answer /healthz while it does other work."""

import contextlib
import os
import random
import socket
import threading
import time
from types import TracebackType
from typing import Final

#: Mean seconds between probes; each wait is random, so that probes do not fall into step with what they measure.
_EVERY_SECONDS: Final = 0.01
#: The probe shares its core with the load: without priority it would measure its own waiting.
_NICENESS: Final = -10
_TIMEOUT_SECONDS: Final = 10.0


class LoopProbe(threading.Thread):
    """A thread that probes one connection's worker during its `with` block; `ms` are the round trips.

    A round trip is an upper bound of the loop's lag: it has the server's own work and the scheduling of both processes
    in it.
    """

    def __init__(self, port: int) -> None:
        super().__init__(name="loop-probe", daemon=True)
        self.ms: list[float] = []
        self._port = port
        self._over = threading.Event()

    def __enter__(self) -> "LoopProbe":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Probe until the block or the connection ends, or a probe takes longer than ten seconds."""
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        request = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        rng = random.Random(1)
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_TIMEOUT_SECONDS)
            while not self._over.wait(rng.uniform(0, 2 * _EVERY_SECONDS)):
                began = time.monotonic()
                try:
                    connection.sendall(request)
                    answered = connection.recv(4096)
                except TimeoutError:
                    self.ms.append(_TIMEOUT_SECONDS * 1e3)
                    return
                if not answered:
                    return
                self.ms.append((time.monotonic() - began) * 1e3)
