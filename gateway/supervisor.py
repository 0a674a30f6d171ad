"""`penstock serve`: the store, the local replica pools and the workers as one unit that starts and stops in order.

The store starts first and stops last. Replicas outlive the workers, so that streams can finish while these drain.
A worker that dies is restarted by Granian's own supervisor, a replica process that dies by this one.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from gateway.app import CONFIG_VARIABLE
from gateway.config import Config, usable_cores
from gateway.local_replicas import replica_addresses, replica_command
from gateway.store import with_parent
from gateway.store.embedded import EmbeddedStore
from gateway.store.socket_path import make_socket_folder

log = logging.getLogger(__name__)

START_SECONDS = 30.0
FIRST_RESTART_SECONDS = 0.5
LAST_RESTART_SECONDS = 30.0
#: A process that ran this long has recovered: its next failure starts with the shortest delay again.
HEALTHY_SECONDS = 60.0


class StartError(RuntimeError):
    """Something `penstock serve` needs did not start; the text is one line for an operator."""


def check_port(host: str, port: int) -> None:
    """Raises StartError when the address cannot be bound, before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartError(
                f"cannot listen on {host}:{port}: {error.strerror}; set listen.port in the configuration"
            ) from error


class ReplicaProcess:
    """One local pool's `penstock replica` process, restarted with growing delays when it dies."""

    def __init__(self, name: str, command: list[str], sockets: list[Path]) -> None:
        self.name = name
        self._command = command
        self._sockets = sockets
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._delay = FIRST_RESTART_SECONDS
        self._restart_at: float | None = None

    def start(self) -> None:
        """Launch the process. It dies with this one, and Ctrl-C on the terminal does not reach it."""
        for path in self._sockets:
            make_socket_folder(path)
            path.unlink(missing_ok=True)
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), *self._command],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait_until_ready(self, deadline: float) -> None:
        """Return once every socket is there. Raises StartError."""
        assert self._process is not None
        while not all(path.exists() for path in self._sockets):
            status = self._process.poll()
            if status is not None:
                raise StartError(
                    f"replica pool {self.name} ended with status {status} at its start; see its line above"
                )
            if time.monotonic() > deadline:
                raise StartError(f"replica pool {self.name} did not get ready within {START_SECONDS:.0f} s")
            time.sleep(0.02)

    def watch(self) -> None:
        """Called at regular times: restarts the process, when its delay is over, if it has died."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            if now - self._started > HEALTHY_SECONDS:
                self._delay = FIRST_RESTART_SECONDS
            log.error(
                "replica pool %s ended with status %s; restarting it in %.1f s",
                self.name,
                self._process.returncode,
                self._delay,
            )
            self._process = None
            self._restart_at = now + self._delay
            self._delay = min(self._delay * 2, LAST_RESTART_SECONDS)
        elif self._restart_at is not None and now >= self._restart_at:
            self._restart_at = None
            self.start()

    def stop(self, deadline: float) -> None:
        """End the process: at first kindly."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def embedded_store(config: Config) -> Iterator[None]:
    """The embedded store, if the configuration has one. Call it from the main thread."""
    if not config.store.embedded:
        yield
        return
    store = EmbeddedStore(config.state_dir)
    store.start()
    try:
        yield
    finally:
        store.stop()


@contextlib.contextmanager
def local_replicas(config: Config) -> Iterator[None]:
    """Every local pool, started together, watched until the end. Raises StartError."""
    processes = [
        ReplicaProcess(
            f"{model.name}/{pool.name}",
            replica_command(config, m, p),
            [Path(address.removeprefix("unix:")) for address in replica_addresses(config, m, p)],
        )
        for m, model in enumerate(config.models)
        for p, pool in enumerate(model.pools)
        if pool.local_replicas
    ]
    stopping = threading.Event()
    # The thread that starts a process is the one whose end the kernel watches for it: this one watches, restarts and
    # stays until the end.
    ready: list[BaseException | None] = []
    started = threading.Event()

    def run() -> None:
        try:
            deadline = time.monotonic() + START_SECONDS
            for process in processes:
                process.start()
            for process in processes:
                process.wait_until_ready(deadline)
            ready.append(None)
        except BaseException as error:
            ready.append(error)
        started.set()
        while not stopping.wait(0.2):
            for process in processes:
                process.watch()
        deadline = time.monotonic() + config.listen.drain_seconds + 2.0
        for process in processes:
            process.stop(deadline)

    watcher = threading.Thread(target=run, name="replicas", daemon=True)
    watcher.start()
    try:
        started.wait()
        if ready[0] is not None:
            raise ready[0]
        yield
    finally:
        stopping.set()
        watcher.join()


def serve_workers(config: Config, config_path: Path, started: Callable[[], None]) -> None:
    """Run Granian's workers until a signal ends them; `started` is called in a thread of its own once they run."""
    os.environ[CONFIG_VARIABLE] = str(config_path.resolve())
    listen = config.listen
    server = Server(
        "gateway.app:create",
        factory=True,
        address=listen.host,
        port=listen.port,
        interface=Interfaces.ASGI,
        workers=listen.worker_count(usable_cores()),
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        backlog=4096,
        # Connections, not requests: idle keep-alive ones count, so it lies well above `max_in_flight`, which refuses
        # with an answer where this would only let clients wait.
        backpressure=4 * listen.max_in_flight,
        http1_settings=HTTP1Settings(header_read_timeout=listen.header_timeout_seconds * 1000),
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=max(1, round(listen.drain_seconds)),
        log_level=LogLevels.warning,
    )
    threading.Thread(target=started, name="announce", daemon=True).start()
    server.serve()
