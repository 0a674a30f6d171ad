"""Run a penstock command as a child of `penstock serve` and restart it with growing delays when it dies."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from gateway.server.ports import StartError
from gateway.store import with_parent
from gateway.store.socket_path import make_socket_folder

log = logging.getLogger(__name__)

START_SECONDS = 30.0
FIRST_RESTART_SECONDS = 0.5
LAST_RESTART_SECONDS = 30.0
#: A process that ran this long has recovered: its next failure starts with the shortest delay again.
HEALTHY_SECONDS = 60.0


def stop_together(processes: "Collection[ChildProcess]", deadline: float) -> None:
    """End processes of one thread at the same time, and wait for them."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.stop(deadline)


class ChildProcess:
    """A child process. One thread must call all its methods: the kernel ends a child with the thread that started
    it.

    `name` is its name in the log; `sockets` are files that it creates once it is ready.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        sockets: Sequence[Path] = (),
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is read whenever it is started; None: it has this process's."""
        self.name = name
        self._environment = environment
        self._command = command
        self._sockets = sockets
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._told = False
        self._delay = FIRST_RESTART_SECONDS
        self._restart_at: float | None = None

    def start(self) -> None:
        """Launch the process. It dies with this one, and Ctrl-C on the terminal does not reach it."""
        for path in self._sockets:
            make_socket_folder(path)
            path.unlink(missing_ok=True)
        self._started, self._told = time.monotonic(), False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), *self._command],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,
        )
        self._restart_at = None

    @property
    def ready(self) -> bool:
        """Whether it runs and every socket exists."""
        return self._process is not None and all(path.exists() for path in self._sockets)

    @property
    def ended(self) -> bool:
        """Whether it has died, and is to be restarted."""
        return self._restart_at is not None

    def wait_until_ready(self, deadline: float, stopping: threading.Event) -> None:
        """Wait until every socket exists or `stopping` is set. Raises StartError."""
        assert self._process is not None
        while not all(path.exists() for path in self._sockets) and not stopping.is_set():
            status = self._process.poll()
            if status is not None:
                raise StartError(f"{self.name} ended with status {status} at its start; see its line above")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} did not get ready within {START_SECONDS:.0f} s")
            time.sleep(0.02)

    def watch(self) -> None:
        """Restart the process if it has died and its delay is over. Call it at regular times."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            if now - self._started > HEALTHY_SECONDS:
                self._delay = FIRST_RESTART_SECONDS
            log.error(
                "%s ended with status %s; restarting it in %.1f s", self.name, self._process.returncode, self._delay
            )
            self._process = None
            self._restart_at = now + self._delay
            self._delay = min(self._delay * 2, LAST_RESTART_SECONDS)
        elif self._restart_at is not None and now >= self._restart_at:
            self._restart_at = now + self._delay
            self.start()

    def terminate(self) -> None:
        """Tell the process to end, once; `stop` waits for it."""
        if self._process is not None and not self._told:
            self._told = True
            self._process.terminate()

    def stop(self, deadline: float) -> None:
        """End the process: SIGTERM first, SIGKILL after the deadline."""
        self.terminate()
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
