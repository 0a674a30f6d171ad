"""Salted hashes of what was asked and answered: who has a text can find its record, and nobody else."""

import contextlib
import os
import secrets
from hashlib import blake2b
from pathlib import Path
from typing import Final

_NAME: Final = "digest.key"
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16


class DigestKeyError(Exception):
    """The file with the key cannot be used; the message names it."""


class TextDigest:
    """Of one text that comes in pieces."""

    __slots__ = ("_hash", "characters")

    def __init__(self, key: bytes) -> None:
        self._hash = blake2b(key=key, digest_size=_DIGEST_BYTES)
        self.characters = 0

    def update(self, text: str) -> None:
        """The next piece."""
        self.characters += len(text)
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    def update_bytes(self, data: bytes) -> None:
        """The next piece of a body that is not read here."""
        self._hash.update(data)

    def hexdigest(self) -> str:
        """Of all that came."""
        return self._hash.hexdigest()


class Digests:
    """Makes hashes with one key, which all workers share and which outlives them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, data: bytes) -> str:
        """Of a whole text, in UTF-8."""
        return blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).hexdigest()

    def begin(self) -> TextDigest:
        """Of a text that is to come."""
        return TextDigest(self._key)


def digest_key(state: Path) -> bytes:
    """The key in the state folder, made if there is none. Raises DigestKeyError."""
    path = state / _NAME
    try:
        state.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise DigestKeyError(f"{path}: {error.strerror}") from error
    if len(key) != _KEY_BYTES:
        raise DigestKeyError(f"{path}: expected {_KEY_BYTES} bytes, found {len(key)}")
    return key


def _make(path: Path) -> None:
    # Written whole beside it and then linked: of processes that start at once one wins, and none reads half a key.
    made = path.with_name(f"{_NAME}.{secrets.token_hex(4)}")
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
    finally:
        made.unlink()
