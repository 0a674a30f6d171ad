"""Hold a value made from files that are replaced while it is in use, such as certificates and keys."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Least seconds between checks of the files.
CHECK_SECONDS = 1.0

_Stamp = tuple[int, int, int] | None


class Renewed(Generic[T]):
    """Make a value at once, and again when a file has changed; after a failure the last value stays in use.

    Several threads may use it.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        make: Callable[[], T],
        *,
        clock: Callable[[], float] = time.monotonic,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """`make` reads the files; its first exception is raised, later ones are logged, once for each change."""
        self._paths = tuple(paths)
        self._make = make
        self._clock = clock
        self._check_seconds = check_seconds
        self._lock = threading.Lock()
        self._checked_at = clock()
        # Stamped before they are read: a change while that happens is seen at the next check.
        self._stamps = [_stamp(path) for path in self._paths]
        self._value = make()

    def get(self) -> T:
        """Return the value of the current files, or of the last usable ones."""
        if self._paths and self._clock() - self._checked_at >= self._check_seconds:
            with self._lock:
                self._check()
        return self._value

    def _check(self) -> None:
        self._checked_at = self._clock()
        stamps = [_stamp(path) for path in self._paths]
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._value = self._make()
        except Exception as error:
            # Whatever is wrong with the new files, the old value still works. The errors name the file.
            log.error("changed files are not used, what was read before stays: %s", error)  # noqa: TRY400


def _stamp(path: Path) -> _Stamp:
    """Return what tells a file from its predecessor; links are followed, as Kubernetes swaps them."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
