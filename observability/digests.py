"""Make salted hashes of prompts and answers: only who has a text can find its record."""

import secrets
from hashlib import blake2b
from pathlib import Path
from typing import Final

from observability.secret_file import create_once

_NAME: Final = "digest.key"
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16


class DigestKeyError(Exception):
    """The key file cannot be used; the message names it."""


class TextDigest:
    """The hash of one text that comes in pieces."""

    __slots__ = ("_fresh", "_hash", "characters")

    def __init__(self, fresh: blake2b) -> None:
        """`fresh` is a hasher without input; it is copied, not changed."""
        self._fresh = fresh
        self._hash = fresh.copy()
        self.characters = 0

    def begin_again(self) -> "TextDigest":
        """Return the digest of another text, with the same key."""
        return TextDigest(self._fresh)

    def update(self, text: str) -> None:
        """Add the next piece."""
        self.characters += len(text)
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    def update_bytes(self, data: bytes) -> None:
        """Add the next piece of a body that is not decoded here."""
        self._hash.update(data)

    def hexdigest(self) -> str:
        """Return the hash of all pieces so far."""
        return self._hash.hexdigest()


class Digests:
    """Make hashes with one key, which all workers share and which outlives them."""

    def __init__(self, key: bytes) -> None:
        # Copying a keyed hasher costs less than taking in the key.
        self._fresh = blake2b(key=key, digest_size=_DIGEST_BYTES)

    def of(self, data: bytes) -> str:
        """Hash a whole text, in UTF-8."""
        digest = self._fresh.copy()
        digest.update(data)
        return digest.hexdigest()

    def begin(self) -> TextDigest:
        """Begin the hash of a text that comes in pieces."""
        return TextDigest(self._fresh)


def digest_key(state: Path) -> bytes:
    """Return the key in the state folder, created if there is none. Raises DigestKeyError."""
    path = state / _NAME
    try:
        if not path.exists():
            create_once(path, secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise DigestKeyError(f"{path}: {error.strerror}") from error
    if len(key) != _KEY_BYTES:
        raise DigestKeyError(f"{path}: expected {_KEY_BYTES} bytes, found {len(key)}")
    return key
