"""A folder with a record of each replica that was started on this machine: what any controller knows of them."""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from observability.printable import printable
from replicas.launchers.held_process import Holder, try_lock
from replicas.launchers.launcher import LauncherError, ReplicaOrder

log = logging.getLogger(__name__)

#: The variable in which a replica's process has its record as it was at its start.
RECORD_VARIABLE: Final = "PENSTOCK_LAUNCHED"

#: Seconds for which a call waits for another controller's call, which takes milliseconds unless that is stopped.
_LOCK_SECONDS: Final = 5.0
#: Bytes of a log: what is kept of one that has grown too long, and how long that is.
_LOG_KEPT: Final = 1 << 20
_LOG_LONGEST: Final = 8 << 20
_LINE_BYTES: Final = 8192
_LINE_LENGTH: Final = 400
#: Records that are set aside and kept: the last ones.
MOST_SET_ASIDE: Final = 32


class LaunchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that was ordered. Times are seconds since the epoch, or since this machine's start (monotonic).

    `ended` says how its process ended, if that is known. `kill_at` (monotonic): it was told to end, or is about to be
    (`told`), and is killed then. `gone_at` (monotonic): it ended as it was told; the record is what keeps its id from
    being started once more.
    """

    order: ReplicaOrder
    address: str
    since: float
    gpus: Sequence[int] = ()
    ended: str = ""
    kill_at: float | None = None
    told: bool = False
    gone_at: float | None = None


_DECODER: Final = msgspec.json.Decoder(LaunchRecord)


class LaunchFolder:
    """The folder. `ID.json` is a record, `ID.lock` the process's lock, `ID.log` its output.

    `ID.slot` is there while a process in wait is being told to become the replica (standby_slots.py). `ID.unreadable`
    is a record that could not be read; the last ones are kept.
    """

    def __init__(self, path: Path) -> None:
        """`path` is absolute; it is created when it is needed."""
        self._path = path
        #: An open file whose shared lock says that this controller uses the folder.
        self._use: int | None = None

    def lock_path(self, id_: str) -> Path:
        return self._path / f"{id_}.lock"

    def log_path(self, id_: str) -> Path:
        return self._path / f"{id_}.log"

    def slot_path(self, id_: str) -> Path:
        return self._path / f"{id_}.slot"

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep every other controller and thread out.

        Raises:
            LauncherError: Another one does not end.
            OSError: The folder cannot be used.
        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while not try_lock(descriptor):
                if time.monotonic() > deadline:
                    owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                    raise LauncherError(f"{self._path} is in use: a launcher is at work in process {owner}")
                time.sleep(0.005)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def join(self) -> None:
        """Say that a controller uses the folder, until `leave` or the process's end. Raises OSError."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._use = os.open(self._path / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._use, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Take `join` back; whether no other controller uses the folder.

        Of several that leave at once one is the last: each gives its lock up before it looks.
        """
        if self._use is None:
            return True
        descriptor, self._use = self._use, None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return try_lock(descriptor)
        finally:
            os.close(descriptor)

    def records(self) -> dict[str, LaunchRecord]:
        """All records by id. One that cannot be read is set aside; the process that it was of has another copy.

        Raises:
            OSError: The folder cannot be read.
        """
        found = {}
        for path in sorted(self._path.glob("*.json")):
            try:
                record = _record(path.read_bytes(), path.stem)
            except _UNREADABLE as error:
                restored = self._restored(path, error)
                if restored is None:
                    continue
                record = restored
            found[record.order.id] = record
        return found

    def write(self, record: LaunchRecord) -> None:
        """Write a record whole, or not at all, also where the machine loses its power. Raises OSError."""
        path = self._path / f"{record.order.id}.json"
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _restored(self, path: Path, error: Exception) -> LaunchRecord | None:
        """Set an unreadable record aside, and return it anew if its process runs and has it. Raises OSError."""
        id_, aside = path.stem, path.with_suffix(".unreadable")
        holder = Holder(self.lock_path(id_))
        record = _of_process(holder.pid, id_) if holder.held else None
        path.replace(aside)
        # By when it was set aside, not written.
        os.utime(aside)
        self._forget_set_aside()
        if record is not None:
            self.write(record)
            then = f"it is made anew from the environment of process {holder.pid}"
        elif holder.held:
            then = f"process {holder.pid or '?'} runs, and is looked after only if it registers"
        else:
            self.lock_path(id_).unlink(missing_ok=True)
            then = "nothing of it runs"
        log.warning("%s: not a record of a replica (%s); set aside as %s, and %s", path, error, aside.name, then)
        return record

    def _forget_set_aside(self) -> None:
        """Remove the oldest of the records that were set aside, with what is left of their replicas. Raises OSError."""
        aside = sorted(self._path.glob("*.unreadable"), key=lambda path: path.stat().st_mtime_ns)
        for path in aside[:-MOST_SET_ASIDE]:
            if not path.with_suffix(".json").exists() and not Holder(self.lock_path(path.stem)).held:
                self._remove_all_of(path.stem)
            path.unlink(missing_ok=True)

    def remove(self, record: LaunchRecord) -> None:
        """Remove a record with its lock and its log. Raises OSError."""
        self._remove_all_of(record.order.id)
        (self._path / f"{record.order.id}.json").unlink(missing_ok=True)

    def _remove_all_of(self, id_: str) -> None:
        for path in (self.lock_path(id_), self.log_path(id_), self.slot_path(id_)):
            path.unlink(missing_ok=True)

    def last_line(self, id_: str) -> str:
        """The last line of a replica's log, shortened; empty if there is none."""
        with contextlib.suppress(OSError), self.log_path(id_).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LINE_BYTES))
            lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
            return printable(lines[-1].strip())[:_LINE_LENGTH] if lines else ""
        return ""

    def bound_log(self, id_: str) -> None:
        """Cut a log that has grown too long; lines that are written at the same moment may be lost."""
        path = self.log_path(id_)
        with contextlib.suppress(OSError), path.open("r+b") as log:
            if (length := os.fstat(log.fileno()).st_size) > _LOG_LONGEST:
                log.seek(length - _LOG_KEPT)
                kept = log.read()
                log.truncate(0)
                with path.open("ab") as end:
                    end.write(kept)


_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def _record(raw: bytes, id_: str) -> LaunchRecord:
    """Decode a record. Raises one of `_UNREADABLE`."""
    record = _DECODER.decode(raw)
    if record.order.id != id_:
        raise ValueError(f"it is of {record.order.id!r:.80}")
    return record


def _of_process(pid: int, id_: str) -> LaunchRecord | None:
    """Return the record that a process of this user has in its environment; None: it has none."""
    prefix = f"{RECORD_VARIABLE}=".encode()
    with contextlib.suppress(OSError, *_UNREADABLE):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(prefix):
                return _record(variable.removeprefix(prefix), id_)
    return None
