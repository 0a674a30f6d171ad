"""The filter of personal data and secrets."""

import re
from collections.abc import Collection
from typing import Final

from safety.match import Match, merged
from safety.pii.columns import rough_headers
from safety.pii.hot import PLACE, areas, rough_of_plain, signs_of_plain
from safety.pii.joined import Joined
from safety.pii.kinds import ALL, KINDS
from safety.pii.recognize import WINDOW, recognize, run_end
from safety.pii.stream import NAMED, PiiStream
from safety.pii.tables import KINDS_OF_CELLS, cells_in
from safety.prefilter import Signs


class PiiFilter:
    """A `safety.filter.StreamFilter`; the labels of its matches are the kinds' names."""

    window: Final = WINDOW
    batch: Final = 1

    def __init__(self, kinds: Collection[str] = ALL) -> None:
        """Raises ValueError where there is no such kind."""
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown:
            raise ValueError(f"no such kind: {', '.join(unknown)}")
        self.kinds: Final = frozenset(kinds)
        self._kinds_of_cells: Final = self.kinds & KINDS_OF_CELLS
        self.signs: Final = Signs(signs_of_plain(), rough_headers().any_in if self._kinds_of_cells else None)
        self._rough = rough_of_plain()

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """The matches in order."""
        found: list[Match] = []
        if plain is None or b"@" in plain or self._rough.any_in(plain):
            found = self._at_places(text)
        if "\n" in text and self._kinds_of_cells:
            data = text.encode("utf-8", "replace") if plain is None else plain
            cells = cells_in(text, data, self._kinds_of_cells)
            if cells:
                found = Joined().take(found, cells, len(text))
        return merged(match for match in found if match.label in self.kinds) if found else found

    def _at_places(self, text: str) -> list[Match]:
        """What begins at places of a text, wanted or not."""
        matches: list[Match] = []
        place = 0
        for first, last in areas(text):
            place = max(place, first)
            while place <= last:
                found = _first_place(text, place, last)
                if found is None:
                    break
                kind, start, end, goes_on = recognize(text, found)
                for run in goes_on:
                    end = run_end(run, text, end)
                if kind in NAMED and kind not in self.kinds:
                    end = max(start, found.start() + 1)
                elif kind is not None:
                    matches.append(Match(start, end, kind))
                place = end
        return matches

    def stream(self) -> PiiStream:
        """A stream for one text."""
        return PiiStream(self.kinds)


def _first_place(text: str, first: int, last: int) -> "re.Match[str] | None":
    """Where PLACE first leads to something between two characters, which are both included."""
    end = last + 2 * WINDOW
    if last - first < _NEAR:
        # A search would go on to the end of what a place may look at.
        for at in range(first, last + 1):
            if found := _place_at(text, at, end):
                return found
        return None
    found = PLACE.search(text, first, end)
    return found if found is not None and found.start() <= last else None


_place_at: Final = PLACE.match
_NEAR: Final = 128
