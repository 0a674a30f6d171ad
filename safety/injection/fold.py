"""Fold look-alike spellings to one: case, compatibility forms, homoglyphs, invisible characters.

Each character folds independently to one character or none, so the folds of a text's pieces join to the fold of the
whole. Non-ASCII characters outside words fold to one sign, and letters of plain texts (`safety.plain_text`) to lower
case.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from safety.plain_text import plain_bytes

#: Classes of word characters and of all others in folded text.
LETTER: Final = r"[^\x00-/:-`{-\x7f]"
BLANK: Final = r"[\x00-/:-`{-\x7f]"
#: Latin letters, each with the lower-case letters that look like it.
_PASSING: Final = {
    "a": "аαάɑᴀ", "b": "вβьʙ", "c": "сϲᴄ", "d": "ԁδᴅ", "e": "еёєεέᴇ", "f": "ꜰ", "g": "ցɢɡ", "h": "һнհʜ", "i": "іїιίɪ",
    "j": "јϳᴊ", "k": "кκᴋ", "l": "ӏʟ", "m": "мμᴍ", "n": "пиηոɴ", "o": "оοόσօᴏ", "p": "рρᴘ", "q": "ԛ", "r": "гʀ",
    "s": "ѕꜱ", "t": "тτᴛ", "u": "υύսᴜц", "v": "νѵᴠ", "w": "ԝшωώᴡ", "x": "хχ", "y": "уγүʏ", "z": "ᴢ",
}  # fmt: skip
_LOOKALIKES: Final = {letter: latin for latin, letters in _PASSING.items() for letter in letters}
#: Invisible characters, as ranges.
_INVISIBLE: Final = (
    *((0x00, 0x08), (0x0E, 0x1F), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD), (0x300, 0x36F), (0x483, 0x489)),
    *((0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x20D0, 0x20FF), (0x3164, 0x3164), (0xFE00, 0xFE0F)),
    *((0xFE20, 0xFE2F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
#: Tag characters: invisible copies of ASCII.
_TAGS: Final = range(0xE0020, 0xE007F)
#: Alphabets in circles and squares without a compatibility form.
_ALPHABETS: Final = [range(first, first + 26) for first in (0x1F150, 0x1F170, 0x1F1E6)]
#: The fold of non-ASCII signs.
_SIGN: Final = "\x1f"
#: Unicode categories of word characters: letters, marks and numbers.
_WORDS: Final = "LMN"


class Folded(NamedTuple):
    """A folded text; `starts[i]` is the position of its character `i` in the source text; None if all are equal."""

    text: str
    starts: Sequence[int] | None


class _Folds(dict[int, str]):
    """A cache of the fold of each character; filled on first use, so bounded by Unicode."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_one(code)
        return folded


_FOLDS: Final = _Folds()


def fold(text: str) -> Folded:
    """Fold a text."""
    folded = text.translate(_FOLDS)
    if len(folded) == len(text):
        return Folded(folded, None)
    return Folded(folded, [place for place, character in enumerate(text) if _FOLDS[ord(character)]])


def _fold_one(code: int) -> str:
    if code in _TAGS:
        return chr(code - _TAGS.start + 32).lower()
    if any(first <= code <= last for first, last in _INVISIBLE):
        return ""
    for letters in _ALPHABETS:
        if code in letters:
            return chr(code - letters.start + ord("a"))
    character = chr(code)
    if 0xD800 <= code < 0xE000:
        return "\ufffd"
    small = character.lower()
    if plain_bytes(character) is None:
        small = unicodedata.normalize("NFKC", character).lower()
        small = _LOOKALIKES.get(small, small)
        if len(small) != 1:
            small = character
    return small if small.isascii() or unicodedata.category(small)[0] in _WORDS else _SIGN
