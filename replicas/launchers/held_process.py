"""Processes that outlive whoever starts them, each with a file whose lock it holds for as long as it lives.

Whether a process lives is whether its lock is held, whoever asks: a process id alone may be another process's by now.
The starter takes the lock, and the process inherits it (`flock(2)`: the lock is the open file's, not the process's). So
there is no moment at which a process runs and its lock is free, even if the starter is killed in between.
"""

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from replicas.launchers import run_held

#: The number under which a process has its lock file: far from those that programs expect something at.
_DESCRIPTOR: Final = 63
#: Signals that a Python process ignores or handles and the new process shall not.
_DEFAULT_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


def start_held(command: Sequence[str], environment: Mapping[str, str], lock: Path, log: Path) -> int | None:
    """Start a process in a session of its own, with its output appended to `log`; return its id.

    None: the lock is held, so that it runs already.

    Raises:
        OSError: It cannot be started.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not try_lock(descriptor):
            return None
        os.ftruncate(descriptor, 0)
        arguments = [sys.executable, "-I", "-S", run_held.__file__, str(_DESCRIPTOR), *command]
        return os.posix_spawn(
            sys.executable,
            arguments,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, descriptor, _DESCRIPTOR),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    finally:
        # From here on the lock is held by the process alone.
        os.close(descriptor)


class Holder:
    """The process behind a lock file. `held`: it lives. `pid`: 0 while it has not begun, or never has."""

    def __init__(self, lock: Path) -> None:
        self.held = False
        self.pid = 0
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                self.held = not try_lock(descriptor)
                text = os.pread(descriptor, 32, 0).partition(b"\n")[0]
                self.pid = int(text) if text.isdigit() else 0
            finally:
                os.close(descriptor)

    def tell(self) -> bool:
        """Send SIGTERM; False where the process has not begun yet."""
        if not self.pid:
            return False
        if self._leads_its_session():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        else:
            # The process itself has ended, and children of it that have inherited the lock have not.
            self.kill()
        return True

    def tell_held(self) -> bool:
        """Send SIGTERM if the process lives; whether it does, and has begun."""
        return self.held and self.tell()

    def kill(self) -> None:
        """Send SIGKILL to the process and to its children."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    @property
    def left_behind(self) -> bool:
        """Whether the process has ended and children of it hold its lock."""
        return self.held and bool(self.pid) and not self._leads_its_session()

    def _leads_its_session(self) -> bool:
        try:
            return os.getsid(self.pid) == self.pid
        except ProcessLookupError:
            return False


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file without waiting; False: another one holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
