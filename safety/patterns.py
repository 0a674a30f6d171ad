"""Expressions that Hyperscan looks for all at once, in time that is linear in the text."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import hyperscan

#: Letters of ASCII stand for both cases.
ANY_CASE: Final = hyperscan.HS_FLAG_CASELESS
#: The expression is of characters, and what is searched is valid UTF-8.
CHARACTERS: Final = hyperscan.HS_FLAG_UTF8
#: Told once in a text.
ONCE: Final = hyperscan.HS_FLAG_SINGLEMATCH

#: Told of a match: the expression's number, where it begins (unless asked for, 0) and ends, flags, and what the caller
#: gave; what is true ends the search.
Note = Callable[[int, int, int, int, Any], bool | None]


class Patterns:
    """A database, and for each thread the memory that a search needs: it lets go of the interpreter's lock."""

    def __init__(
        self,
        expressions: Sequence[bytes],
        flags: int | Sequence[int] = 0,
        *,
        numbers: Sequence[int] | None = None,
        literal: bool = False,
    ) -> None:
        """`numbers` are told of matches, the places in the list if there are none; `literal`: they are mere strings."""
        count = len(expressions)
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=expressions,
            ids=range(count) if numbers is None else numbers,
            elements=count,
            flags=[flags] * count if isinstance(flags, int) else flags,
            literal=literal,
        )
        self._own = threading.local()

    def search(self, data: bytes, note: Note, context: object) -> bool:
        """Tell of every match, until there are no more or `note` has heard enough; gives whether it has."""
        try:
            scratch = self._own.scratch
        except AttributeError:
            scratch = self._own.scratch = hyperscan.Scratch(self._database)
        try:
            self._database.scan(data, note, 0, context, scratch)
        except hyperscan.ScanTerminated:
            return True
        return False

    def any_in(self, data: bytes) -> bool:
        """Whether there is a match."""
        return self.search(data, _enough, None)


def _enough(_number: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
    return True
