"""The language of a text, by CLD2. Imported only where something is configured that asks for it."""

from typing import Any, Final

import pycld2

from observability.drift.features import UNKNOWN

#: As much of a text is looked at, which takes some 20 microseconds.
MOST_CHARACTERS: Final = 400
#: CLD2 refuses control characters and what is no character.
_REFUSED: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), *range(0xFDD0, 0xFDF0), 0xFFFE, 0xFFFF], " ")


def language_of(text: str) -> str:
    """The language's code of ISO 639-1, or of CLD2 where that has none; `und` for a text that is too short or mixed."""
    told = text[:MOST_CHARACTERS].translate(_REFUSED).encode("utf-8", "ignore")
    if not told.strip():
        return UNKNOWN
    try:
        reliable, _, found = pycld2.detect(told)
    except pycld2.error:
        return UNKNOWN
    code: Any = found[0][1]
    return UNKNOWN if not reliable or code == "un" else str(code)
