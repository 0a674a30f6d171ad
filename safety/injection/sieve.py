"""Tells of most plain texts, in one quick pass, that no anchor is in them."""

import re
from collections.abc import Iterable
from typing import Final

from safety.patterns import ANY_CASE, ONCE, Patterns
from safety.plain_text import plain_bytes

_NO_WORD: Final = b"[^A-Za-z0-9]"
#: Shorter strings slow down the search for all of them; those few are expressions of their own.
_SHORT: Final = 3
#: What is longer is hardly ever in the middle of a word.
_LONG: Final = 6
#: Numbers of expressions: of idle anchors below this, of all others from here on.
_TELLING: Final = 1 << 16


class Sieve:
    """Anchors, as (string, whether a word begins with it, whether one ends with it, whether it is idle)."""

    def __init__(self, anchors: Iterable[tuple[bytes, bool, bool, bool]]) -> None:
        idle: list[bytes] = []
        telling: list[bytes] = []
        short: dict[bool, list[bytes]] = {True: [], False: []}
        for string, opens, closes, is_idle in anchors:
            if not _may_be_plain(string):
                continue
            expression = re.escape(string)
            if len(string) <= _LONG and closes:
                expression += _NO_WORD
            if len(string) < _SHORT:
                short[opens].append(expression)
                continue
            if len(string) <= _LONG and opens:
                expression = _NO_WORD + expression
            (idle if is_idle else telling).append(expression)
        if short[False]:
            telling.append(b"|".join(short[False]))
        if short[True]:
            telling.append(_NO_WORD + b"(?:" + b"|".join(short[True]) + b")")
        # Each has a number of its own: those with the same one would be merged, which takes many times as long.
        self._patterns = Patterns(
            [*idle, *telling],
            [ANY_CASE | ONCE] * len(idle) + [ANY_CASE] * len(telling),
            numbers=[*range(len(idle)), *range(_TELLING, _TELLING + len(telling))],
        )

    def lets_pass(self, data: bytes, *, idle: int) -> bool:
        """Whether a plain text surely has no anchor but fewer idle ones than so many different ones."""
        found: list[int] = []
        # At its ends there are no words either.
        return not self._patterns.search(b" %b " % data, _note, found) and len(found) < idle


def _note(number: int, _start: int, _end: int, _flags: int, found: list[int]) -> bool:
    found.append(number)
    return number >= _TELLING


def _may_be_plain(string: bytes) -> bool:
    """Whether a plain text may have these bytes; parts of characters are of such that are not plain."""
    try:
        return plain_bytes(string.decode()) is not None
    except UnicodeDecodeError:
        return False
