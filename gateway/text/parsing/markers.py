"""Markers in text that arrives in pieces: found whole, or as far as they have come."""

import re
from typing import Final

#: What `literal` says of text that does not begin with the literal, and of text that is too short to tell.
ABSENT: Final = -1
UNKNOWN: Final = -2


class Markers:
    """Any of some markers, none of which begins with another."""

    __slots__ = ("_longest", "_whole", "match", "search")

    def __init__(self, *markers: str) -> None:
        pattern = re.compile("|".join([_whole_or_cut(marker) for marker in markers]))
        self._whole = frozenset(markers)
        self._longest = max(map(len, markers))
        #: Find the first marker from a place on, or what may become one at the text's end; None: there is neither.
        self.search = pattern.search
        #: The same, for a marker that begins right there.
        self.match = pattern.match

    def search_near(self, text: str, at: int, most: int) -> tuple[int, re.Match[str] | None]:
        """The same, no more than `most` characters on: how many there are before it, more than `most` without one."""
        end = min(len(text), at + most + self._longest)
        found = self.search(text, at, end)
        before = (end if found is None else found.start()) - at
        return before, found

    def is_whole(self, found: re.Match[str]) -> bool:
        """Whether all of the marker is there."""
        return found.group() in self._whole


def _whole_or_cut(marker: str) -> str:
    pattern = ""
    for character in reversed(marker):
        pattern = re.escape(character) + (rf"(?:\Z|{pattern})" if pattern else "")
    return pattern


def literal(text: str, at: int, wanted: str) -> int:
    """Where `wanted` ends if it is at that place of the text, else `ABSENT` or `UNKNOWN`."""
    if text.startswith(wanted, at):
        return at + len(wanted)
    return UNKNOWN if len(text) - at < len(wanted) and wanted.startswith(text[at:]) else ABSENT
