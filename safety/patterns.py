"""Expressions that Hyperscan looks for all at once, in time that is linear in the text."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import hyperscan

#: Letters of ASCII stand for both cases.
ANY_CASE: Final = hyperscan.HS_FLAG_CASELESS
#: The expression is of characters, and what is searched is valid UTF-8.
CHARACTERS: Final = hyperscan.HS_FLAG_UTF8
#: Small and capital letters, `\\w` and the like are those of all scripts.
LETTERS: Final = hyperscan.HS_FLAG_UCP
#: Told once in a text.
ONCE: Final = hyperscan.HS_FLAG_SINGLEMATCH
#: `starts` knows where matches begin, and of those that end at one place the first.
STARTS: Final = hyperscan.HS_FLAG_SOM_LEFTMOST


class Sign(NamedTuple):
    """An expression with its flags."""

    expression: bytes
    flags: int = 0


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
        each = [flags] * len(expressions) if isinstance(flags, int) else flags
        database = _database(expressions, each, numbers=numbers, literal=literal)
        self._scan = database.scan
        self._own = _Own(database)

    def ends(self, data: bytes) -> list[tuple[int, int]]:
        """Every match, as the expression's number and where it ends, in order of the ends."""
        found: list[tuple[int, int]] = []
        self._scan(data, _note, 0, found.append, self._own.scratch)
        return found

    def starts(self, data: bytes) -> set[tuple[int, int]]:
        """Where matches of expressions with STARTS begin, and their numbers."""
        found: set[tuple[int, int]] = set()
        self._scan(data, _note_start, 0, found.add, self._own.scratch)
        return found

    def any_in(self, data: bytes) -> bool:
        """Whether there is a match."""
        try:
            self._scan(data, _enough, 0, None, self._own.scratch)
        except hyperscan.ScanTerminated:
            return True
        return False


#: Raised by a watch's `scan` where there is a sign that its `Tell` ends at.
Found: Final = hyperscan.ScanTerminated
#: Asked of each sign that is there, by its number and what else Hyperscan says of it: whether that is enough.
Tell = Callable[[int, int, int, int, object], bool]


class Watch:
    """One database of signs for several that look for some of them each.

    They call `scan` with the data, a `Tell`, 0, nothing and what `own` has for their thread: a request's text should
    not have to go through a function more.
    """

    def __init__(self, signs: Sequence[Sign]) -> None:
        database = _database([sign.expression for sign in signs], [sign.flags for sign in signs])
        self.scan: Final = database.scan
        self.own: Final = _Own(database)
        self._numbers = {sign: number for number, sign in enumerate(signs)}

    def ending_at(self, signs: Iterable[Sign]) -> Tell:
        """What ends a scan at one of these."""
        ends = bytearray(len(self._numbers))
        for sign in signs:
            ends[self._numbers[sign]] = True
        those = bytes(ends)

        def tell(number: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
            return those[number] == 1

        return tell


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


def _note_start(number: int, start: int, _end: int, _flags: int, note: Any) -> None:
    note((start, number))


def _enough(_number: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
    return True
