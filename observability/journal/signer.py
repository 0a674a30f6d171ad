"""Link each block of the journal to the one before it: SHA-256, or HMAC-SHA-256 with a key."""

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from observability.secret_file import create_once

#: The key id in plain chains.
NO_KEY: Final = bytes(8)
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rf"[0-9a-f]{{{2 * _SECRET_BYTES}}}")


class JournalKeyError(OSError):
    """The key cannot be used; the text is one line for an operator."""


class Signer:
    """Make links. Without a secret anybody can make them."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret
        #: Identifies the key in what it signed and reveals nothing about it.
        self.key_id = NO_KEY if secret is None else hashlib.sha256(b"penstock journal key" + secret).digest()[:8]

    def link(self, signed: bytes) -> bytes:
        """Return the 32-byte link of the signed bytes."""
        if self._secret is None:
            return hashlib.sha256(signed).digest()
        return hmac.digest(self._secret, signed, "sha256")


def read_key(path: Path) -> bytes:
    """Read the secret in a file.

    Raises:
        JournalKeyError: There is none, others may read it, or it is not of the right form.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise JournalKeyError(f"the journal's key {path} is open to other users; run: chmod 600 {path}")
            text = file.read(1024).decode("ascii", "replace").strip()
    except JournalKeyError:
        raise
    except OSError as error:
        raise JournalKeyError(f"the journal's key {path}: {error.strerror or error}") from error
    if not _FORM.fullmatch(text):
        raise JournalKeyError(f"the journal's key {path} must be {_SECRET_BYTES} bytes in hexadecimal")
    return bytes.fromhex(text)


def create_key(path: Path) -> bytes:
    """Read the secret in a file, which is created where there is none.

    Raises:
        JournalKeyError: The file cannot be used or created.
    """
    if not path.exists():
        try:
            create_once(path, f"{secrets.token_hex(_SECRET_BYTES)}\n".encode())
        except OSError as error:
            raise JournalKeyError(f"the journal's key {path}: {error.strerror or error}") from error
    return read_key(path)
