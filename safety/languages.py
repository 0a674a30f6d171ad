"""Detect texts in languages other than English, for which filters have fewer rules."""

from typing import Final

from safety.patterns import ONCE, Sign

#: At least one in so many characters of a text in another language is not ASCII, ...
_SELDOM: Final = 100
#: ... and it has non-ASCII letters (these lead bytes in UTF-8), not only symbols or pictures.
OTHER_LETTERS: Final = Sign(rb"[\xc3-\xe1\xe3-\xed]", ONCE)


def may_be_other_language(characters: int, size: int) -> bool:
    """Whether a text with `OTHER_LETTERS`, of this many characters and UTF-8 bytes, may be in another language.

    One foreign name in a text is not enough.
    """
    return (size - characters) * _SELDOM >= characters
