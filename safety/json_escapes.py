r"""Characters that JSON text has escaped without need, as `\u00fc` for an umlaut; without, it means the same.

What has to be escaped stays: quotes, backslashes, control characters, and halves of characters that are alone.
"""

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})|u(?P<one>[0-9a-fA-F]{4})|.)",
    re.DOTALL,
)
#: At the end of a piece: what the next one may make an escape, or the first half of a character.
_BEGUN: Final = re.compile(
    r"(?:[^\\]|^)(?:\\\\)*(?P<rest>\\(?:u(?:[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?|[0-9a-fA-F]{0,3}))?)\Z"
)


def unescaped(text: str) -> str:
    """The text without escapes that it does not need."""
    return _ESCAPE.sub(_character, text) if "\\u" in text else text


class Unescaping:
    """The same for a text that comes in pieces: cut anywhere, all pieces together are what the whole text comes to."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        #: What is held back of the pieces that came.
        self.rest = ""

    def feed(self, piece: str) -> str:
        """The next piece."""
        if self.rest:
            piece = self.rest + piece
            self.rest = ""
        elif "\\" not in piece:
            return piece
        begun = _BEGUN.search(piece)
        if begun is not None:
            self.rest = begun["rest"]
            piece = piece[: begun.start("rest")]
        return unescaped(piece)


def _character(escape: re.Match[str]) -> str:
    if escape["high"]:
        return chr(0x10000 + ((int(escape["high"], 16) & 0x3FF) << 10) + (int(escape["low"], 16) & 0x3FF))
    if not escape["one"]:
        return escape[0]
    code = int(escape["one"], 16)
    needed = code < 0x20 or 0x7F <= code < 0xA0 or code in (0x22, 0x5C) or 0xD800 <= code < 0xE000
    return escape[0] if needed else chr(code)
