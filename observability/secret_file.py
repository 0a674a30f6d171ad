"""Create secret files once, by the first process that needs one."""

import contextlib
import os
import secrets
from pathlib import Path


def create_once(path: Path, data: bytes) -> None:
    """Create a file that only its owner may read, durably and with its folder; an existing one is left as it is.

    The file is written whole under another name and then linked, which fails where another process was first: one of
    several processes wins, and none reads half a secret. Raises OSError.
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
