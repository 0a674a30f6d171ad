"""Search for markers in text that arrives in pieces, whole or cut at the end."""

import re
from typing import Final

#: Results of `literal`: the text does not begin with the literal, or is too short to decide.
ABSENT: Final = -1
UNKNOWN: Final = -2


class Markers:
    """A set of markers, none of which is a prefix of another."""

    __slots__ = ("_longest", "_whole", "match", "search")

    def __init__(self, *markers: str) -> None:
        pattern = re.compile("|".join([_whole_or_cut(marker) for marker in markers]))
        self._whole = frozenset(markers)
        self._longest = max(map(len, markers))
        #: Find the first marker from an index on, or the beginning of one at the text's end; None if there is neither.
        self.search = pattern.search
        #: Match a marker, or the beginning of one, exactly at an index.
        self.match = pattern.match

    def search_near(self, text: str, at: int, most: int) -> tuple[int, re.Match[str] | None]:
        """Find a marker within `most` characters; returns how many precede it, more than `most` without one."""
        end = min(len(text), at + most + self._longest)
        found = self.search(text, at, end)
        before = (end if found is None else found.start()) - at
        return before, found

    def is_whole(self, found: re.Match[str]) -> bool:
        """Whether the match is a whole marker."""
        return found.group() in self._whole


def _whole_or_cut(marker: str) -> str:
    pattern = ""
    for character in reversed(marker):
        pattern = re.escape(character) + (rf"(?:\Z|{pattern})" if pattern else "")
    return pattern


def literal(text: str, at: int, wanted: str) -> int:
    """The index after `wanted` if it is at that index of the text, else `ABSENT` or `UNKNOWN`."""
    if text.startswith(wanted, at):
        return at + len(wanted)
    return UNKNOWN if len(text) - at < len(wanted) and wanted.startswith(text[at:]) else ABSENT
