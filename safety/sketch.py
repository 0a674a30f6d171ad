"""What tells that two prompts are the same, or almost: a keyed fingerprint, and a sketch of few values.

The fingerprint is of the text without white space and without regard to case. The sketch is a bottom-k sample of the
text's shingles (Broder, 1997): of the hashes of all pairs of words that follow each other, the smallest. Two texts
have about as large a part of their values in common as of their shingles, so a few changed words, other numbers or a
longer end leave most of them; a greeting that they share does not make two texts alike. Scripts that write no spaces
have shingles of characters.

Work is linear in the text's length, and that of a sketch bounded: of a long text its beginning and its end count.
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
#: Values of a sketch, and the fewest that say anything about a text.
VALUES: Final = 16
FEWEST: Final = 4
#: Characters that a sketch is made of, at each end of a text.
SIDE: Final = 32_768

#: Words that are longer than this on average are no words, but a script without spaces, or data.
_LONGEST_WORDS: Final = 12
#: Characters of a shingle of characters, as UTF-32 has them; of these shingles one in four is taken.
_RUN: Final = 5
_WIDTH: Final = 4
_TAKEN: Final = 4

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
    """Fingerprints and sketches under one key: without it nobody can tell what text one is of."""

    def __init__(self, key: bytes) -> None:
        """`key` has at most 64 bytes; another key makes other fingerprints and sketches of the same texts."""
        self._key = key
        self._seed = int.from_bytes(blake2b(key=key, digest_size=8).digest(), "little")
        self._taken = bytes(xxh3_64_intdigest(bytes([low]), self._seed) % _TAKEN == 0 for low in range(256))

    def fingerprint(self, texts: Sequence[str]) -> bytes:
        """Of one prompt of several messages. Those that differ in case and white space alone have the same."""
        return blake2b(b"".join(map(_squeezed, texts)), key=self._key, digest_size=DIGEST_BYTES).digest()

    def sketch(self, texts: Sequence[str]) -> list[bytes]:
        """The values of one prompt, VALUES at most; none where there are fewer than FEWEST."""
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
        """Shingles of characters. Which are taken is told by their first one: an insertion moves none out of step."""
        data = "".join(text.lower().split()).encode("utf-32-le", "surrogatepass")
        starts = range(0, len(data) - _WIDTH * (_RUN - 1), _WIDTH)
        some = list(compress(starts, data[::_WIDTH].translate(self._taken)))
        seed, length = self._seed, _WIDTH * _RUN
        return [xxh3_64_digest(data[at : at + length], seed) for at in (some if len(some) >= VALUES else starts)]


def _squeezed(text: str) -> bytes:
    """A text in lower case, without white space."""
    if text.isascii():
        return text.encode().translate(_LOWER, _SPACES)
    return "".join(text.lower().split()).encode("utf-8", "surrogatepass")


def _ends(text: str) -> str:
    return text if len(text) <= 2 * SIDE else f"{text[:SIDE]}\n{text[-SIDE:]}"
