"""Finds many strings at once, wherever they stand, in one pass over a text's bytes.

Up to some ten thousand strings go to Hyperscan's matcher of literals: its tables are a tenth of an automaton's, so they
are still in the processor's caches when a busy worker comes back to them. It takes too long to build for more; lists of
that size go to an Aho-Corasick automaton.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

import hyperscan
from ahocorasick_rs import BytesAhoCorasick, Implementation

#: More strings than this make an automaton.
_MANY: Final = 25_000

#: The place of a string in the list, and where it begins and ends.
Hit = tuple[int, int, int]


class Literals:
    """All places of all strings, those that overlap included. May be used by several threads."""

    def __init__(self, strings: Sequence[bytes]) -> None:
        """No string is empty, and no two are equal."""
        self._lengths = [len(string) for string in strings]
        self._few: _Scanner | None = None
        self._many: BytesAhoCorasick | None = None
        # To Hyperscan a string ends at its first NUL.
        if 0 < len(strings) <= _MANY and not any(b"\0" in string for string in strings):
            self._few = _Scanner(strings)
        elif strings:
            self._many = BytesAhoCorasick(strings, implementation=Implementation.ContiguousNFA)

    def find(self, data: bytes) -> list[Hit]:
        """In order of their ends."""
        if self._few is not None:
            ends = self._few.scan(data)
            if not ends:
                return []
            lengths = self._lengths
            return [(index, end - lengths[index], end) for index, end in ends]
        if self._many is None:
            return []
        return self._many.find_matches_as_indexes(data, overlapping=True)


class _Scanner:
    """Hyperscan's database, and for each thread the memory that a scan needs: it lets go of the interpreter's lock."""

    def __init__(self, strings: Sequence[bytes]) -> None:
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=strings,
            ids=range(len(strings)),
            elements=len(strings),
            flags=[0] * len(strings),
            literal=True,
        )
        self._own = threading.local()

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """The place of a string in the list, and where it ends."""
        ends: list[tuple[int, int]] = []
        try:
            scratch = self._own.scratch
        except AttributeError:
            scratch = self._own.scratch = hyperscan.Scratch(self._database)
        self._database.scan(data, _note, 0, ends.append, scratch)
        return ends


def _note(index: int, _start: int, end: int, _flags: int, note: Any) -> None:
    note((index, end))
