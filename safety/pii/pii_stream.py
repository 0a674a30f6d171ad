"""Find personal data and secrets in a streamed or a whole text."""

from collections.abc import Sequence, Set
from typing import Final

from safety.match import Match
from safety.pii.columns import has_header
from safety.pii.places import REACH, TRIGGER, candidates, table
from safety.pii.tables import Cell, Tables
from safety.pii.text_window import BREAK, LEFT, WINDOW, Found, Runs, run_end

#: The buffer is cut when this many of its characters are decided.
_KEPT: Final = 4 * LEFT
#: A cache for short ASCII pieces: whether one has a TRIGGER, and the characters after its last BREAK (WINDOW: none).
_PIECES: Final[dict[str, tuple[bool, int]]] = {}
_MOST_PIECES: Final = 65_536
_LONGEST_PIECE: Final = 12
#: A TRIGGER that ends in a piece begins at most this many characters before it.
_BEFORE: Final = 2
#: A BREAK that ends in a piece begins at most this many characters before it (scripts without spaces).
_BREAKING: Final = 9
#: Characters that may precede the last one of a TRIGGER of several characters.
_JOINED: Final = frozenset("-skABCDEFGHIJKLMNOPQRSTUVWXYZ")
#: Kinds found by a name before the value: if not selected, other rules examine the value.
_NAMED: Final = frozenset({"password", "generic_secret", "bearer_token"})


def _scan_piece(text: str) -> tuple[bool, int]:
    """Compute a piece's entry of `_PIECES`, and cache it if the piece is short ASCII."""
    last = WINDOW
    for found in BREAK.finditer(text):
        last = len(text) - found.end()
    scanned = TRIGGER.search(text) is not None, last
    if len(text) <= _LONGEST_PIECE and text.isascii():
        if len(_PIECES) >= _MOST_PIECES:
            _PIECES.clear()
        _PIECES[text] = scanned
    return scanned


def _scan_joined(whole: str, new: int) -> tuple[bool, int]:
    """Compute the same for a piece together with the text before it, from `new` on."""
    last = WINDOW
    for found in BREAK.finditer(whole, max(0, new - _BREAKING)):
        last = len(whole) - found.end()
    return TRIGGER.search(whole, max(0, new - _BEFORE)) is not None, last


class PiiStream:
    """The `Stream` of a PiiFilter. Text before `_place` is decided; the buffer keeps LEFT characters before it."""

    __slots__ = (
        "_cells",
        "_in_table",
        "_kind",
        "_kinds",
        "_offset",
        "_place",
        "_read",
        "_runs",
        "_tables",
        "_text",
        "_trigger",
    )

    def __init__(self, kinds: Set[str]) -> None:
        self._kinds = kinds
        self._text = ""
        #: The buffer's offset in the text; all other positions are relative to it.
        self._offset = 0
        self._place = 0
        #: The end of the last TRIGGER, or later.
        self._trigger = -LEFT
        #: The remaining runs of the last match, and its kind.
        self._runs: Runs = ()
        self._kind: str | None = None
        #: Created when the first line ends. It has read up to `_read`; its cells begin at `_place` or later.
        self._tables: Tables | None = None
        self._read = 0
        self._cells: list[Cell] = []
        self._in_table = False

    @property
    def open(self) -> int:
        return self._offset + self._place

    def feed(self, text: str) -> Sequence[Match]:
        new = len(self._text)
        self._text = whole = self._text + text
        scanned = _PIECES.get(text)
        if scanned is None:
            scanned = _scan_piece(text)
        before = whole[new - 1 : new]
        if before in _JOINED or not text.isascii():
            scanned = _scan_joined(whole, new)
        elif scanned[1] == WINDOW:
            if before.isspace():
                if BREAK.match(whole, new - 1):
                    scanned = scanned[0], len(text)
            elif text[:1].isspace() and BREAK.match(whole, new):
                scanned = scanned[0], len(text) - 1
        triggers, last = scanned
        length = len(whole)
        if triggers:
            self._trigger = length
        decided = length - min(last, WINDOW - 1)
        if self._in_table or "\n" in text:
            decided = min(decided, self._read_tables())
        if decided <= self._place and not self._runs:
            # No match begins with a space.
            self._place += whole[self._place : self._place + 1].isspace()
            return ()
        if self._trigger <= self._place - REACH and not self._runs and not self._cells:
            self._place = decided
            matches: list[Match] = []
        else:
            matches = self._find(decided)
        if self._place > _KEPT:
            self._cut(self._place - LEFT)
        return matches

    def finish(self) -> Sequence[Match]:
        end = len(self._text)
        if self._in_table:
            self._read_tables(ended=True)
        matches = self._find(end)
        self._place = end
        return matches

    def whole(self, text: str) -> list[Match]:
        """Scan a whole text, in place of `feed` and `finish`."""
        self._text = text
        data = text.encode("utf-8", "replace")
        if has_header(text, data, self._kinds):
            self._read_tables(ended=True)
        return [match for match in self._matches_at(candidates(text, data), len(text)) if match.label in self._kinds]

    def _read_tables(self, *, ended: bool = False) -> int:
        """Find table cells in the new text; return the first position that is undecided."""
        tables_ = self._tables
        if tables_ is None:
            self._tables = tables_ = Tables(self._kinds)
        offset = self._offset
        cells = tables_.feed(self._text[self._read :], ended=ended)
        self._read = len(self._text)
        self._in_table = tables_.inside
        self._cells += [Cell(start - offset, end - offset, kind) for start, end, kind in cells]
        return tables_.open - offset

    def _cut(self, cut: int) -> None:
        """Drop the beginning of the buffer, up to `cut`."""
        if self._read < cut:
            self._read_tables()
        self._text = self._text[cut:]
        self._offset += cut
        self._place -= cut
        self._trigger -= cut
        self._read -= cut
        self._cells = [Cell(start - cut, end - cut, kind) for start, end, kind in self._cells]

    def _find(self, decided: int) -> list[Match]:
        """Return the matches that begin before `decided`."""
        matches: list[Match] = []
        if self._runs:
            self._place = self._extend(matches, self._place)
            if self._runs or decided <= self._place:
                return [match for match in matches if match.label in self._kinds]
        first = max(0, self._place - LEFT)
        text = self._text[first:]
        places = candidates(text, text.encode("utf-8", "replace"))
        matches += self._matches_at(
            [(place + first, number, start + first) for place, number, start in places], decided
        )
        return [match for match in matches if match.label in self._kinds]

    def _matches_at(self, places: list[tuple[int, int, int]], decided: int) -> list[Match]:
        """Return the matches at places before `decided`, in order, without overlaps; cells have lowest precedence."""
        text, rules, kinds = self._text, table().rules, self._kinds
        matches: list[Match] = []
        place = self._place
        if self._cells:
            places = sorted([*places, *((cell.start, len(rules), at) for at, cell in enumerate(self._cells))])
        for at, number, start in places:
            if self._runs or at >= decided:
                break
            if at < place:
                continue
            if number == len(rules):
                found: Found | None = Found(self._cells[start].kind, at, self._cells[start].end)
            else:
                found = rules[number].at(text, start, at)
            if found is None or (found.kind in _NAMED and found.kind not in kinds):
                continue
            if not TRIGGER.search(text, max(0, at - REACH), found.end):
                continue
            place = found.end
            if found.kind is not None:
                matches.append(Match(self._offset + found.start, self._offset + place, found.kind))
                self._kind, self._runs = found.kind, found.runs
                if self._runs:
                    place = self._extend(matches, place)
        self._cells = [cell for cell in self._cells if cell.start >= decided]
        self._place = max(place, decided)
        return matches

    def _extend(self, matches: list[Match], place: int) -> int:
        """Extend the last match by its runs; return its end. `_runs` is empty once the match has ended."""
        text, start = self._text, place
        while self._runs:
            place = run_end(self._runs[0], text, place)
            if place == len(text):
                break
            self._runs = self._runs[1:]
        if self._kind is not None and place > start:
            matches.append(Match(self._offset + start, self._offset + place, self._kind))
        return place
