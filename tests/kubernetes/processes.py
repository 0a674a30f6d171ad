"""Processes of the tests: with a log, ended by their id, and gone when the tests are."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gateway.store import with_parent

_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.1


class Running:
    """A process, which can be paused, ended and started again."""

    def __init__(self, name: str, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        launch = [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), *self._command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                launch, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait_for(self, ready: Callable[[], object], seconds: float) -> None:
        """Wait until it is ready.

        Raises:
            RuntimeError: It has ended, or took too long; the text has the last lines of its log.
        """
        until = time.monotonic() + seconds
        while not ready():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.name} has ended:\n{self.tail()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{self.name} was not ready in {seconds:.0f} s:\n{self.tail()}")
            time.sleep(_LOOK_SECONDS)

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        """End it, at last by force."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(sent)
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
