"""Whether a text is in another language than English, of which filters know more."""

from typing import Final

from safety.patterns import ONCE, Sign

#: In a text of another language at least one of so many characters is not ASCII, ...
_SELDOM: Final = 100
#: ... and it has letters beyond ASCII, which begin so in UTF-8, and not only signs or pictures.
OTHER_LETTERS: Final = Sign(rb"[\xc3-\xe1\xe3-\xed]", ONCE)


def may_be_another(characters: int, size: int) -> bool:
    """Whether a text of so many characters and bytes of UTF-8 is, if it has `OTHER_LETTERS`: a name makes none."""
    return (size - characters) * _SELDOM >= characters
