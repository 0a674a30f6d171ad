r"""Decode needless escapes in JSON text, such as `\u00fc` for an umlaut, without changing its meaning.

Necessary escapes stay: quotes, backslashes, control characters and lone surrogates.
"""

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})|u(?P<one>[0-9a-fA-F]{4})|.)",
    re.DOTALL,
)
#: An incomplete escape, or the first half of a surrogate pair, at the end of a piece.
_BEGUN: Final = re.compile(
    r"(?:[^\\]|^)(?:\\\\)*(?P<rest>\\(?:u(?:[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?|[0-9a-fA-F]{0,3}))?)\Z"
)


def unescaped(text: str) -> str:
    """Decode the needless escapes of a text."""
    return _ESCAPE.sub(_character, text) if "\\u" in text else text


class Unescaping:
    """Decode the needless escapes of a streamed text: the pieces, however cut, join to `unescaped` of the whole."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        #: The incomplete escape that is held back.
        self.rest = ""

    def feed(self, piece: str) -> str:
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
