"""Find many literal strings in one pass over a text's bytes.

Up to some ten thousand strings use Hyperscan's literal matcher: its tables are a tenth of an automaton's, so they stay
in the processor's caches of a busy worker. For more strings it takes too long to build; those use an Aho-Corasick
automaton.
"""

from collections.abc import Sequence
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation

from safety.patterns import ANY_CASE, Patterns

#: Above this number of strings an automaton is built.
_MANY: Final = 25_000

#: A string's index in the list, and its start and end in bytes.
Hit = tuple[int, int, int]


class Literals:
    """A matcher that finds all occurrences of all strings, overlapping ones included. Thread-safe."""

    def __init__(self, strings: Sequence[bytes], *, any_case: bool = False) -> None:
        """Strings are distinct and not empty; with `any_case` they are in lower case and match ASCII in any case."""
        self._lengths = [len(string) for string in strings]
        self._any_case = any_case
        self._few: Patterns | None = None
        self._many: BytesAhoCorasick | None = None
        # Hyperscan ends a string at its first NUL.
        if 0 < len(strings) <= _MANY and not any(b"\0" in string for string in strings):
            self._few = Patterns(strings, ANY_CASE if any_case else 0, literal=True)
        elif strings:
            self._many = BytesAhoCorasick(strings, implementation=Implementation.ContiguousNFA)

    @property
    def are_few(self) -> bool:
        """Whether the strings are in a Hyperscan database."""
        return self._few is not None

    def find(self, data: bytes) -> list[Hit]:
        """Return the hits in order of their ends."""
        if self._few is not None:
            ends = self._few.ends(data)
            if not ends:
                return []
            lengths = self._lengths
            return [(index, end - lengths[index], end) for index, end in ends]
        if self._many is None:
            return []
        return self._many.find_matches_as_indexes(data.lower() if self._any_case else data, overlapping=True)
