"""Finds many strings at once, wherever they stand, in one pass over a text's bytes.

Up to some ten thousand strings go to Hyperscan's matcher of literals: its tables are a tenth of an automaton's, so they
are still in the processor's caches when a busy worker comes back to them. It takes too long to build for more; lists of
that size go to an Aho-Corasick automaton.
"""

from collections.abc import Sequence
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation

from safety.patterns import ANY_CASE, Patterns

#: More strings than this make an automaton.
_MANY: Final = 25_000

#: The place of a string in the list, and where it begins and ends.
Hit = tuple[int, int, int]


class Literals:
    """All places of all strings, those that overlap included. May be used by several threads."""

    def __init__(self, strings: Sequence[bytes], *, any_case: bool = False) -> None:
        """No string is empty, and no two are equal; with `any_case` they are in lower case, and texts in any.

        That is about letters of ASCII.
        """
        self._lengths = [len(string) for string in strings]
        self._any_case = any_case
        self._few: Patterns | None = None
        self._many: BytesAhoCorasick | None = None
        # To Hyperscan a string ends at its first NUL.
        if 0 < len(strings) <= _MANY and not any(b"\0" in string for string in strings):
            self._few = Patterns(strings, ANY_CASE if any_case else 0, literal=True)
        elif strings:
            self._many = BytesAhoCorasick(strings, implementation=Implementation.ContiguousNFA)

    @property
    def are_few(self) -> bool:
        """Whether they are a database of Hyperscan's."""
        return self._few is not None

    def find(self, data: bytes) -> list[Hit]:
        """In order of their ends."""
        if self._few is not None:
            ends = self._few.ends(data)
            if not ends:
                return []
            lengths = self._lengths
            return [(index, end - lengths[index], end) for index, end in ends]
        if self._many is None:
            return []
        return self._many.find_matches_as_indexes(data.lower() if self._any_case else data, overlapping=True)
