"""Search for many expressions at once with Hyperscan, in time linear in the text."""

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

import hyperscan

#: ASCII letters match in both cases.
ANY_CASE: Final = hyperscan.HS_FLAG_CASELESS
#: The expression is over characters; the searched data is valid UTF-8.
CHARACTERS: Final = hyperscan.HS_FLAG_UTF8
#: Case, `\\w` and the like follow Unicode.
LETTERS: Final = hyperscan.HS_FLAG_UCP
#: Reported once per text.
ONCE: Final = hyperscan.HS_FLAG_SINGLEMATCH
#: `starts` reports where matches begin: of those that end at one place the leftmost.
STARTS: Final = hyperscan.HS_FLAG_SOM_LEFTMOST


class Sign(NamedTuple):
    """A Hyperscan expression with its flags."""

    expression: bytes
    flags: int = 0


class Patterns:
    """A Hyperscan database with scratch memory per thread, as a search releases the interpreter's lock."""

    def __init__(
        self,
        expressions: Sequence[bytes],
        flags: int | Sequence[int] = 0,
        *,
        numbers: Sequence[int] | None = None,
        literal: bool = False,
    ) -> None:
        """`numbers` identify the expressions in matches (default: list indices); `literal`: they are plain strings."""
        each = [flags] * len(expressions) if isinstance(flags, int) else flags
        database = _database(expressions, each, numbers=numbers, literal=literal)
        self._scan = database.scan
        self._local = _ThreadLocal(database)

    def ends(self, data: bytes) -> list[tuple[int, int]]:
        """Return every match as (expression number, end), in order of the ends."""
        found: list[tuple[int, int]] = []
        self._scan(data, _note, 0, found.append, self._local.scratch)
        return found

    def starts(self, data: bytes) -> set[tuple[int, int]]:
        """Return (start, expression number) for all matches of expressions with STARTS."""
        found: set[tuple[int, int]] = set()
        self._scan(data, _note_start, 0, found.add, self._local.scratch)
        return found

    def any_in(self, data: bytes) -> bool:
        """Whether any expression matches; stops at the first match."""
        try:
            self._scan(data, _enough, 0, None, self._local.scratch)
        except hyperscan.ScanTerminated:
            return True
        return False


#: Raised by `SignDatabase.scan` when the `OnMatch` callback ends the scan.
SignFound: Final = hyperscan.ScanTerminated
#: Hyperscan's match callback (number, start, end, flags, context): returns whether to end the scan.
OnMatch = Callable[[int, int, int, int, object], bool]


class SignDatabase:
    """One Hyperscan database of signs, shared by several searches for subsets of them.

    Callers use `scan(data, on_match, 0, None, local.scratch)` directly: it saves a call for each text of a request.
    """

    def __init__(self, signs: Sequence[Sign]) -> None:
        database = _database([sign.expression for sign in signs], [sign.flags for sign in signs])
        self.scan: Final = database.scan
        self.local: Final = _ThreadLocal(database)
        self._numbers = {sign: number for number, sign in enumerate(signs)}

    def stop_at(self, signs: Iterable[Sign]) -> OnMatch:
        """Return a callback that ends a scan at the first of these signs."""
        ends = bytearray(len(self._numbers))
        for sign in signs:
            ends[self._numbers[sign]] = True
        those = bytes(ends)

        def on_match(number: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
            return those[number] == 1

        return on_match


class _ThreadLocal(threading.local):
    """Hyperscan's scratch memory, one per thread, allocated on the thread's first use."""

    def __init__(self, database: hyperscan.Database) -> None:
        self.scratch = hyperscan.Scratch(database)


class DatabaseCache(Protocol):
    """Keeps compiled databases, which take seconds to compile, for other processes. Nothing here raises."""

    def load(self, key: str) -> bytes | None:
        """Return the bytes saved under a key, if they are there and whole."""
        ...

    def save(self, key: str, data: bytes) -> None:
        """Save bytes under a key, in place of earlier ones."""
        ...

    def lock(self, key: str) -> AbstractContextManager[None]:
        """Wait until no other process is in here with this key."""
        ...


#: The process's cache, if it has one.
_CACHE: Final[list[DatabaseCache]] = []
_VERSION: Final[str] = vars(hyperscan)["__version__"]
#: Databases of fewer expressions are compiled at once.
_FEW: Final = 32


def keep_databases(cache: DatabaseCache) -> None:
    """Load the databases that this process needs from here on from a cache, and save those that it compiles there."""
    _CACHE[:] = [cache]


def _database(
    expressions: Sequence[bytes], flags: Sequence[int], *, numbers: Sequence[int] | None = None, literal: bool = False
) -> hyperscan.Database:
    ids = list(range(len(expressions)) if numbers is None else numbers)

    def compiled() -> hyperscan.Database:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(expressions=expressions, ids=ids, elements=len(ids), flags=flags, literal=literal)
        return database

    if not _CACHE or len(ids) < _FEW:
        return compiled()
    cache = _CACHE[0]
    key = hashlib.sha256(repr((_VERSION, literal, ids, list(flags), list(expressions))).encode()).hexdigest()
    database = _loaded(cache, key)
    if database is None:
        with cache.lock(key):
            # Another process may just have compiled it.
            database = _loaded(cache, key)
            if database is None:
                database = compiled()
                cache.save(key, hyperscan.dumpb(database))
    return database


def _loaded(cache: DatabaseCache, key: str) -> hyperscan.Database | None:
    data = cache.load(key)
    if data is None:
        return None
    try:
        database = hyperscan.loadb(data, hyperscan.HS_MODE_BLOCK)
        # What is of another version or for another processor is told when it is used.
        hyperscan.Scratch(database)
    except hyperscan.HyperscanError:
        return None
    return database


# Hyperscan's match callbacks: expression number, start (0 without STARTS), end, flags and the caller's context; a true
# result ends the search.


def _note(number: int, _start: int, end: int, _flags: int, note: Any) -> None:
    note((number, end))


def _note_start(number: int, start: int, _end: int, _flags: int, note: Any) -> None:
    note((start, number))


def _enough(_number: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
    return True
