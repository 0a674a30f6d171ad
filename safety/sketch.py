"""Detect equal and near-equal prompts: a keyed fingerprint, and a sketch of few values.

The fingerprint ignores white space and case. The sketch is a bottom-k sample of the text's shingles (Broder, 1997):
the smallest hashes of all pairs of adjacent words. The share of values that two texts have in common estimates the
share of common shingles, so a few changed words, other numbers or a longer end keep most values, while a common
greeting does not make two texts alike. Scripts without spaces have shingles of characters.

Work is linear in the text's length, and bounded for a sketch: only the beginning and the end of a long text count.
"""

import string
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import compress, pairwise
from typing import Final

from xxhash import xxh3_64_digest, xxh3_64_intdigest

#: Bytes of a key, a fingerprint and a value.
KEY_BYTES: Final = 16
DIGEST_BYTES: Final = 8
#: The most values of a sketch, and the fewest that identify a text.
VALUES: Final = 16
FEWEST: Final = 4
#: The number of characters at each end of a text that a sketch covers.
SIDE: Final = 32_768

#: Words longer than this on average mean a script without spaces, or data.
_LONGEST_WORDS: Final = 12
#: Characters in a character shingle, bytes per character (UTF-32), and the sampling rate: one shingle in four.
_RUN: Final = 5
_WIDTH: Final = 4
_SAMPLING: Final = 4

_SPACES: Final = string.whitespace.encode() + b"\x1c\x1d\x1e\x1f"
_LOWER: Final = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_DIGITS: Final = string.digits.encode()


def _word_table() -> bytes:
    table = bytearray(_LOWER)
    for code in (*string.punctuation.encode(), *_SPACES):
        table[code] = ord(" ")
    return bytes(table)


_WORDS: Final = _word_table()


class Sketcher:
    """Compute keyed fingerprints and sketches: without the key they cannot be linked to a text."""

    def __init__(self, key: bytes) -> None:
        """`key` has at most 64 bytes; different keys give different fingerprints and sketches of a text."""
        self._key = key
        self._seed = int.from_bytes(blake2b(key=key, digest_size=8).digest(), "little")
        self._sampled = bytes(xxh3_64_intdigest(bytes([low]), self._seed) % _SAMPLING == 0 for low in range(256))

    def fingerprint(self, texts: Sequence[str]) -> bytes:
        """Return the fingerprint of one prompt's messages; it ignores case and white space."""
        return blake2b(b"".join(map(_squeezed, texts)), key=self._key, digest_size=DIGEST_BYTES).digest()

    def sketch(self, texts: Sequence[str]) -> list[bytes]:
        """Return the sketch of one prompt, VALUES values at most; empty if there are fewer than FEWEST."""
        values = sorted(set(self._shingles(_ends("\n".join(texts)))))[:VALUES]
        return values if len(values) >= FEWEST else []

    def _shingles(self, text: str) -> Iterable[bytes]:
        if not text.isascii():
            text = text.lower()
        words = text.encode("utf-8", "surrogatepass").translate(_WORDS, _DIGITS).split()
        if len(text) > _LONGEST_WORDS * len(words):
            return self._runs(text)
        seed = self._seed
        return [xxh3_64_digest(pair, seed) for pair in map(b" ".join, pairwise(words))]

    def _runs(self, text: str) -> Iterable[bytes]:
        """Hash character shingles, sampled by their first character so that an insertion shifts no others."""
        data = "".join(text.lower().split()).encode("utf-32-le", "surrogatepass")
        starts = range(0, len(data) - _WIDTH * (_RUN - 1), _WIDTH)
        some = list(compress(starts, data[::_WIDTH].translate(self._sampled)))
        seed, length = self._seed, _WIDTH * _RUN
        return [xxh3_64_digest(data[at : at + length], seed) for at in (some if len(some) >= VALUES else starts)]


def _squeezed(text: str) -> bytes:
    """Convert a text to lower case without white space."""
    if text.isascii():
        return text.encode().translate(_LOWER, _SPACES)
    return "".join(text.lower().split()).encode("utf-8", "surrogatepass")


def _ends(text: str) -> str:
    return text if len(text) <= 2 * SIDE else f"{text[:SIDE]}\n{text[-SIDE:]}"
