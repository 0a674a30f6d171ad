"""Finds the anchors of plain texts, as they are written, in one quick pass."""

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from safety.literals import Hit
from safety.patterns import ANY_CASE, Patterns
from safety.plain_text import plain_bytes

_NO_WORD: Final = b"[^A-Za-z0-9]"
#: What is longer is hardly ever in the middle of a word.
_LONG: Final = 6


class PlainAnchors:
    """Finds what `Literals` finds of the same strings, without most of what is only a part of a word.

    Of strings of which that is asked, a match of a short one has no letter or digit of ASCII beside it.
    """

    def __init__(self, anchors: Iterable[tuple[bytes, bool, bool]]) -> None:
        """Strings in lower case; whether a word begins with each, and whether one ends with it."""
        #: The expression of each that a plain text may have, by its number.
        self.expressions: Final[dict[int, bytes]] = {}
        #: How far before the end of its match each begins and ends.
        self._starts: list[int] = []
        self._stops: list[int] = []
        for number, (string, opens, closes) in enumerate(anchors):
            before, after = (int(edge and len(string) <= _LONG) for edge in (opens, closes))
            # The blank before the text counts, too.
            self._stops.append(after + 1)
            self._starts.append(after + 1 + len(string))
            if _may_be_plain(string):
                self.expressions[number] = _NO_WORD * before + re.escape(string) + _NO_WORD * after
        self._patterns = Patterns(list(self.expressions.values()), ANY_CASE, numbers=list(self.expressions))

    def find(self, plain: bytes, not_only: frozenset[int] = frozenset()) -> list[Hit]:
        """Where they are in `plain_bytes` of a text, in any case; nowhere, if there are `not_only` those."""
        # Nothing is part of a word that stands at an end of the text.
        ends = self._patterns.ends(b" " + plain + b" ")
        if not ends or not_only.issuperset(map(_number, ends)):
            return []
        starts, stops = self._starts, self._stops
        return [(number, stop - starts[number], stop - stops[number]) for number, stop in ends]


_number: Final = itemgetter(0)


def _may_be_plain(string: bytes) -> bool:
    """Whether a plain text may have these bytes; parts of characters are of such that are not plain."""
    try:
        return plain_bytes(string.decode()) is not None
    except UnicodeDecodeError:
        return False
