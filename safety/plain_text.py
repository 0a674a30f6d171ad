"""Recognise plain texts, as most are: filters can search their UTF-8 bytes directly, without folding.

A plain text has no ASCII control characters but white space. Each of its non-ASCII characters folds to itself, to its
lower-case letter, to its own decomposition, or to `PUNCTUATION`. It is not a digit, not invisible, and not a look-alike
of an ASCII letter that the injection filter replaces. The ranges cover the most written languages, but neither Greek
nor Cyrillic, whose letters look like Latin ones; other characters make a text not plain.
"""

from functools import cache
from typing import Final

from safety.folding import has_controls
from safety.patterns import CHARACTERS, Patterns

#: The characters that the punctuation of a plain text may fold to.
PUNCTUATION: Final = ",!?:;()."
SIGNS: Final = "‘’‚‛“”„‟‹›«»–—―†‡•‰′…¡¢£¥§©«¬®°±¶»¿€、。〈〉《》「」『』【】ー，！？：；（）"
#: Latin, Hebrew, Arabic, Devanagari, Thai, Japanese and Chinese letters; arrows, boxes, symbols and pictures.
RANGES: Final = (
    *((0xC0, 0xDE), (0xE0, 0x12F), (0x131, 0x131), (0x134, 0x13E), (0x141, 0x148), (0x14A, 0x17E), (0x5D0, 0x5EA)),
    *((0x621, 0x63A), (0x641, 0x64A), (0x904, 0x939), (0x93E, 0x94D), (0xE01, 0xE30), (0xE34, 0xE3A), (0xE40, 0xE4E)),
    *((0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FFF)),
    *((0x2190, 0x21FF), (0x2500, 0x2775), (0x2794, 0x27BF), (0x1F300, 0x1F64F), (0x1F680, 0x1F6D7), (0x1F900, 0x1F9FF)),
)
_LETTERS: Final = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in RANGES)
#: Matches a character that no plain text has.
NOT_PLAIN: Final = rf"[^\x09-\x0d\x20-\x7e{SIGNS}{_LETTERS}]".encode()


@cache
def _not_plain() -> Patterns:
    return Patterns([NOT_PLAIN], CHARACTERS)


def prepare_plain_text() -> None:
    """Compile the expressions, once, before a text is looked at."""
    plain_bytes("\u2019 ")
    has_controls(b"")


def plain_bytes(text: str) -> bytes | None:
    """Return the text's UTF-8, or None if the text is not plain."""
    if text.isascii():
        data = text.encode()
        return None if has_controls(data) else data
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return None
    return None if _not_plain().any_in(data) else data
