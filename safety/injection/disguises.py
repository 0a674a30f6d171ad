"""Expressions over folded text for obfuscated attack words: in digits, spelled out, split, encoded, ..."""

import base64
import codecs
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

#: Obfuscated words by the weight of finding one in a text.
_WORDS: Final = {
    0.5: ("ignore", "disregard", "override", "bypass", "jailbreak"),
    0.3: ("instructions", "previous", "reveal", "forget", "uncensored", "unrestricted"),
    0.25: ("system", "prompt", "password", "restriction"),
}
_DIGITS: Final = {"a": "4@", "e": "3", "i": "1!|", "o": "0", "s": "5$", "t": "7", "g": "9", "l": "1|"}
_ACCENTS: Final = {
    "a": "àáâãäåÀÁÂÃÄÅ", "e": "èéêëÈÉÊË", "i": "ìíîïÌÍÎÏ", "o": "òóôõöÒÓÔÕÖ", "u": "ùúûüÙÚÛÜ", "y": "ýÿÝ",
}  # fmt: skip
#: The number of hexadecimal letters that identify a word.
_PART: Final = 5
_LEAST_BASE64: Final = 6


def disguises() -> Iterator[tuple[str, float, str]]:
    """Yield (technique, weight, RE2 expression) for all words of each weight in each technique."""
    for weight, words in _WORDS.items():
        for technique, (forms, share) in _TECHNIQUES.items():
            yield technique, weight * share, "|".join(form for word in words for form in forms(word))


def _in_digits(word: str) -> Iterator[str]:
    return _swapped(word, _DIGITS, 1)


def _with_accents(word: str) -> Iterator[str]:
    """Add two accents or more: with one accent they are words of other languages."""
    return _swapped(word, _ACCENTS, 2)


def _swapped(word: str, others: Mapping[str, str], least: int) -> Iterator[str]:
    """Replace at least `least` letters by characters in `others`."""
    for chosen in combinations([place for place, letter in enumerate(word) if letter in others], least):
        yield "".join(
            f"(?:{'|'.join(map(re.escape, others.get(letter, '') + letter * (place not in chosen)))})"
            for place, letter in enumerate(word)
        )


def _spelled(word: str) -> Iterator[str]:
    yield r"\b" + r"[\n -/:-@_|~]{1,2}".join(word)


def _split(word: str) -> Iterator[str]:
    for place in range(2, len(word) - 1):
        yield rf"\b{word[:place]}[-._*|~/]{word[place:]}"


def _base64(word: str) -> Iterator[str]:
    """The word's base64 characters at each alignment, in lower case as text is folded."""
    found = set()
    for cased in (word, word.capitalize(), word.upper()):
        for before in range(3):
            code = base64.b64encode(b"\0" * before + cased.encode()).decode()
            found.add(code[(0, 2, 3)[before] : (before + len(cased)) * 8 // 6].lower())
    return (re.escape(code) for code in sorted(found) if len(code) >= _LEAST_BASE64)


def _hexadecimal(word: str) -> Iterator[str]:
    """The hexadecimal code of each letter in either case."""
    codes = [divmod(ord(letter), 16) for letter in word[:_PART]]
    yield r"[ ,:%x\\0-]{0,4}".join(f"[{high}{high - 2}]{low:x}" for high, low in codes)


def _turned(word: str) -> Iterator[str]:
    yield codecs.encode(word, "rot13")
    yield word[::-1]


_TECHNIQUES: Final = {
    "digits": (_in_digits, 0.8),
    "accents": (_with_accents, 0.8),
    "spelled": (_spelled, 1.0),
    "split": (_split, 0.7),
    "base64": (_base64, 1.0),
    "hexadecimal": (_hexadecimal, 1.0),
    "turned": (_turned, 1.0),
}
