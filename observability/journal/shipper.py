"""Runs a command for each sealed segment, which takes it to where nobody can change it, such as object storage."""

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from observability.journal.folder import Segment, chain_folders, segments, take_lock

log = logging.getLogger(__name__)

#: Longest time of one command.
COMMAND_SECONDS: Final = 600.0
FIRST_RETRY_SECONDS: Final = 1.0
LAST_RETRY_SECONDS: Final = 300.0
#: How often is looked for segments that other processes have sealed.
LOOK_SECONDS: Final = 30.0
_SHIPPED: Final = ".shipped"
_LOCK: Final = "ship.lock"
_POLL_SECONDS: Final = 0.05


class Shipper:
    """One process at a time ships the segments of all chains, in their order, one command at a time."""

    def __init__(self, folder: Path, command: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`command` gets a segment's path as one more argument; status 0 says that the segment has arrived."""
        self._folder, self._command, self._clock = folder, command, clock
        self._thread = threading.Thread(target=self._run, name="journal-ship", daemon=True)
        self._wake = threading.Event()
        self._deadline = float("inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._told = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to ship."""
        self._wake.set()

    def close(self, deadline: float) -> None:
        """Ship what there is until a moment of the clock, and end. What is left is shipped by the next process."""
        self._deadline = deadline
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - self._clock()) + 1.0)

    def _run(self) -> None:
        lock: int | None = None
        while True:
            self._wake.clear()
            closing = self._deadline < float("inf")
            wait = LOOK_SECONDS
            try:
                if lock is None:
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    lock = take_lock(self._folder / _LOCK)
                if lock is not None and not self.ship_all():
                    wait, self._retry_seconds = self._retry_seconds, min(2 * self._retry_seconds, LAST_RETRY_SECONDS)
            except OSError as error:
                self._tell("cannot look for sealed segments of the audit journal: %s", error.strerror or error)
            if closing:
                break
            self._wait(wait)
        if lock is not None:
            os.close(lock)

    def _wait(self, seconds: float) -> None:
        """Until there may be more to do. After a failure a newly sealed segment changes nothing."""
        failed, end = self._told, self._clock() + seconds
        while (left := end - self._clock()) > 0:
            if self._wake.wait(left) and (not failed or self._deadline < float("inf")):
                return
            self._wake.clear()

    def ship_all(self) -> bool:
        """Ship what is sealed and was not shipped; gives False after a failure. Raises OSError."""
        for folder in chain_folders(self._folder):
            for segment in unshipped(folder):
                if self._clock() >= self._deadline:
                    return True
                if not self._ship(segment):
                    return False
        return True

    def _ship(self, segment: Segment) -> bool:
        try:
            status = self._status(segment)
        except OSError as error:
            words = f"{self._command[0]}: {error.strerror or error}"
        else:
            words = f"{self._command[0]} ended with status {status}"
            if status == 0:
                _mark(segment)
                if self._told:
                    log.warning("sealed segments of the audit journal are shipped again")
                self._told, self._retry_seconds = False, FIRST_RETRY_SECONDS
                return True
        if not segment.path.exists():
            return True
        self._tell("cannot ship %s: %s; it is tried again until it arrives", segment.path, words)
        return False

    def _tell(self, words: str, *values: object) -> None:
        if not self._told:
            self._told = True
            log.error(words, *values)

    def _status(self, segment: Segment) -> int | str:
        """Run the command. Raises OSError."""
        self._process = process = subprocess.Popen(
            [*self._command, str(segment.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = self._clock() + COMMAND_SECONDS
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_POLL_SECONDS)
            if self._clock() >= min(end, self._deadline):
                # Its own children too: the command may be a script.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return "for it took too long"


def unshipped(folder: Path) -> list[Segment]:
    """The sealed segments of a chain's folder that were not shipped, the oldest first. Raises OSError."""
    return [each for each in segments(folder) if not each.open and each.number > _shipped(folder, each.chain)]


def _shipped(folder: Path, chain: bytes) -> int:
    """The last segment of a chain that was shipped; 0: none."""
    try:
        return int((folder / f"{chain.hex()}{_SHIPPED}").read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return 0


def _mark(segment: Segment) -> None:
    """Note how far a chain was shipped. Raises OSError."""
    path = segment.path.with_name(f"{segment.chain.hex()}{_SHIPPED}")
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(f"{segment.number}\n", encoding="ascii")
    fresh.replace(path)
