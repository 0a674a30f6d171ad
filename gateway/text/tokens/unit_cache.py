"""A worker's cache of encoded units of long prompts, bounded in bytes."""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from gateway.caching.byte_lru import ByteLru
from gateway.text.tokens.prompt_unit import Unit
from gateway.text.tokens.tokenizer import Tokenizer
from protos.packed_ids import PackedIds

#: Four million tokens or so, forty prompts of 100,000.
MAX_BYTES: Final = 32 * 1024 * 1024
#: Memory of an entry beside its ids.
_ENTRY_BYTES: Final = 400
_KEY_BYTES: Final = 16


def _size_of(ids: PackedIds) -> int:
    return len(ids.packed) + len(ids.varints) + _ENTRY_BYTES


class UnitCache:
    """Encoded units by a keyed hash of their text, their tokenizer and a salt. For several threads.

    Nobody finds out by timing whether a text was sent with another salt: with each salt a text has another entry.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.entries: ByteLru[bytes, PackedIds] = ByteLru(max_bytes, _size_of)
        self._key = secrets.token_bytes(32)
        self._lock = Lock()
        self._tokenizers: WeakKeyDictionary[Tokenizer, bytes] = WeakKeyDictionary()

    def encoder(self, tokenizer: Tokenizer, salt: str) -> "CachingEncoder":
        """Return an encoder that encodes prompts as the tokenizer does, with the entries of this salt."""
        with self._lock:
            own = self._tokenizers.setdefault(tokenizer, secrets.token_bytes(_KEY_BYTES))
        prefix = blake2b(own, key=self._key, digest_size=_KEY_BYTES)
        prefix.update(blake2b(salt.encode("utf-8", "surrogatepass")).digest())
        return CachingEncoder(tokenizer, self.entries, prefix)


class CachingEncoder:
    """A `PartsEncoder` that encodes a prompt's units through a `UnitCache`."""

    def __init__(self, tokenizer: Tokenizer, entries: ByteLru[bytes, PackedIds], prefix: blake2b) -> None:
        """`prefix` is the hash that each entry's key begins with."""
        self._tokenizer = tokenizer
        self._entries = entries
        self._prefix = prefix

    def encode_text(self, text: str) -> Sequence[int]:
        """Encode a text as the tokenizer's `encode(special=False)` does."""
        ids = self._encode([text])
        return self._tokenizer.encode(text, special=False) if ids is None else ids

    def encode_parts(self, parts: Sequence[str]) -> Sequence[int]:
        """Encode a prompt in parts as the tokenizer's `encode_parts` does."""
        ids = self._encode(parts)
        return self._tokenizer.encode_parts(parts) if ids is None else ids

    def _encode(self, parts: Sequence[str]) -> PackedIds | None:
        """Encode a prompt by its units; None where it can only be encoded whole."""
        units = self._tokenizer.units(parts)
        found: list[PackedIds] = []
        for number, unit in enumerate(units, 1):
            try:
                key = self._key_of(unit)
            except UnicodeEncodeError:  # a lone surrogate
                return None
            ids = self._entries.get(key)
            if ids is None:
                encoded = self._tokenizer.encode_unit(unit)
                if encoded is None:
                    return None
                ids = PackedIds.of(encoded)
                # The last unit ends where this prompt does, and seldom another.
                if number < len(units):
                    self._entries.put(key, ids)
            found.append(ids)
        return PackedIds.joined(found) if units else None

    def _key_of(self, unit: Unit) -> bytes:
        digest = self._prefix.copy()
        digest.update(msgspec.msgpack.encode(unit))
        return digest.digest()
