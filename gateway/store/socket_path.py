"""Paths of unix sockets: in the state directory, or in a short private folder if that path is too long."""

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import Final

# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero included.
_LONGEST: Final = 103
_SHORT_PARENT: Final = Path("/tmp")


class SocketPathError(RuntimeError):
    """A socket cannot be placed safely; the text is one line for an operator."""


def socket_path(state_dir: Path, name: str) -> Path:
    """Give the path of the socket `name` of an absolute state directory; the same for every process of a user.

    The rule: `STATE_DIR/NAME`, or, where that is over 103 bytes, `/tmp/penstock-UID-HASH/NAME` with 16 hexadecimal
    digits of the state directory's SHA-256.

    Raises:
        SocketPathError: The short directory exists and others could have made it.
    """
    direct = state_dir / name
    if len(os.fsencode(direct)) <= _LONGEST:
        return direct
    digest = hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:16]
    short = _SHORT_PARENT / f"penstock-{os.getuid()}-{digest}"
    _refuse_foreign(short)
    return short / name


def make_socket_folder(path: Path) -> None:
    """Create the folder of a path from `socket_path`, private to this user.

    Raises:
        SocketPathError: The folder exists and others could have made it.
        OSError: It cannot be created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.parent == _SHORT_PARENT:
        _refuse_foreign(path.parent)


def remove_socket_folder(path: Path) -> None:
    """Remove a short folder that `make_socket_folder` created, once its last socket is gone."""
    if path.parent.parent == _SHORT_PARENT and path.parent.name.startswith("penstock-"):
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _refuse_foreign(folder: Path) -> None:
    """Check the folder's owner and mode: in /tmp anyone can create it first and serve the sockets in it."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SocketPathError(f"{folder} is not a private folder of this user; remove it, or shorten `state`")
