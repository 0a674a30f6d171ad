"""Files with secrets that the first who needs one makes."""

import contextlib
import os
import secrets
from pathlib import Path


def create_once(path: Path, data: bytes) -> None:
    """Make a file that only its owner may read, durably and with its folder; one that is there is left as it is.

    It is written whole beside its place and then linked there, which fails where another process was first: of those
    that start at once one wins, and none reads half a secret. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
