"""Notices by its metadata that a file has changed: written in place, renamed over, or behind a changed link."""

import os
from pathlib import Path

Signature = tuple[int, int, int, int]


def signature(file: Path) -> Signature | None:
    """Return what tells one version of a file from the next; None while there is none. Links are followed."""
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class WatchedFile:
    """One file, looked at from time to time. A version counts once two looks in a row have seen it: it is not written
    any more.
    """

    def __init__(self, file: Path) -> None:
        # Not resolved: what a link of the path points to may change.
        self.file = Path(os.path.abspath(file))
        self._known = self._seen = signature(self.file)

    def look(self) -> bool:
        """Look once; whether there is a version that nobody has been told of."""
        now = signature(self.file)
        settled, self._seen = now == self._seen, now
        if now is None or now == self._known or not settled:
            return False
        self._known = now
        return True

    def read(self) -> None:
        """Note that the version of this moment is being read anyhow."""
        self._known = signature(self.file)
