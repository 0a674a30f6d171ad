"""Expressions that Hyperscan looks for all at once, in time that is linear in the text."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import hyperscan

#: Letters of ASCII stand for both cases.
ANY_CASE: Final = hyperscan.HS_FLAG_CASELESS
#: The expression is of characters, and what is searched is valid UTF-8.
CHARACTERS: Final = hyperscan.HS_FLAG_UTF8
#: Told once in a text.
ONCE: Final = hyperscan.HS_FLAG_SINGLEMATCH


class Sign(NamedTuple):
    """An expression with its flags."""

    expression: bytes
    flags: int = 0


class Patterns:
    """A database, and for each thread the memory that a search needs: it lets go of the interpreter's lock."""

    def __init__(
        self,
        expressions: Sequence[bytes],
        flags: int = 0,
        *,
        numbers: Sequence[int] | None = None,
        literal: bool = False,
    ) -> None:
        """`numbers` are told of matches, the places in the list if there are none; `literal`: they are mere strings."""
        database = _database(expressions, [flags] * len(expressions), numbers=numbers, literal=literal)
        self._scan = database.scan
        self._own = _Own(database)

    def ends(self, data: bytes) -> list[tuple[int, int]]:
        """Every match, as the expression's number and where it ends, in order of the ends."""
        found: list[tuple[int, int]] = []
        self._scan(data, _note, 0, found.append, self._own.scratch)
        return found

    def any_in(self, data: bytes) -> bool:
        """Whether there is a match."""
        try:
            self._scan(data, _enough, 0, None, self._own.scratch)
        except hyperscan.ScanTerminated:
            return True
        return False


class Watch:
    """Looks for signs; more than one may do so, each for some of them, in one database."""

    def __init__(self, signs: Sequence[Sign]) -> None:
        database = _database([sign.expression for sign in signs], [sign.flags for sign in signs])
        self._scan = database.scan
        self._own = _Own(database)
        self._numbers = {sign: number for number, sign in enumerate(signs)}

    def look_for(self, ending: Iterable[Sign], noted: Sign) -> Callable[[bytes], list[int] | None]:
        """What looks through data for some of the signs, until it finds one; another one is merely noted.

        It gives None if there is one; else a list that is not empty if there is the one that is noted.
        """
        of_each = bytearray(len(self._numbers))
        for sign in ending:
            of_each[self._numbers[sign]] = _ENDS
        of_each[self._numbers[noted]] = _NOTED
        tell, scan, own = _telling(bytes(of_each)), self._scan, self._own

        def look(data: bytes) -> list[int] | None:
            found: list[int] = []
            try:
                scan(data, tell, 0, found, own.scratch)
            except hyperscan.ScanTerminated:
                return None
            return found

        return look


class _Own(threading.local):
    """What each thread has for itself, made when it first asks."""

    def __init__(self, database: hyperscan.Database) -> None:
        self.scratch = hyperscan.Scratch(database)


def _database(
    expressions: Sequence[bytes], flags: Sequence[int], *, numbers: Sequence[int] | None = None, literal: bool = False
) -> hyperscan.Database:
    count = len(expressions)
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=expressions,
        ids=range(count) if numbers is None else numbers,
        elements=count,
        flags=flags,
        literal=literal,
    )
    return database


# They are told of a match: the expression's number, where it begins (not asked for, so 0) and ends, flags, and what the
# caller gave; what is true ends the search.


def _note(number: int, _start: int, end: int, _flags: int, note: Any) -> None:
    note((number, end))


def _enough(_number: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
    return True


def _telling(of_each: bytes) -> Callable[[int, int, int, int, Any], bool]:
    def tell(number: int, _start: int, _end: int, _flags: int, found: Any) -> bool:
        said = of_each[number]
        if said == _NOTED:
            found.append(number)
        return said == _ENDS

    return tell


_ENDS: Final = 1
_NOTED: Final = 2
