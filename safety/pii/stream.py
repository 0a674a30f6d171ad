"""Personal data and secrets in a text that comes in pieces."""

import re
from collections.abc import Sequence, Set
from typing import Final

from safety.match import Match
from safety.pii.hot import BREAK, LAST_UNSPACED, PLACE, SIGN, TRIGGER, UNSPACED_HOLD
from safety.pii.joined import Joined
from safety.pii.recognize import WINDOW, recognize, run_end
from safety.pii.said_codes import MAY_BE_TOLD
from safety.pii.tables import KINDS_OF_CELLS, Tables
from safety.pii.telling import LEFT

#: Of a piece without a trigger: how many of its last characters may be part of something that goes on, or all so far.
_HOLDS: Final[dict[str, int]] = {}
_MOST_HOLDS: Final = 65_536
_LONGEST: Final = 12
_HOT: Final = -1
#: Less what it holds, where a line ends in it.
_LINE: Final = -2
_ALL: Final = 1 << 30
#: So much is kept of what stands before: all that is looked at, and a character that tells whether it begins a word.
_LEFT: Final = LEFT + 1
#: The buffer is cut when it is longer than this.
_KEPT: Final = 512
_DIGIT: Final = re.compile(r"\d")
#: Kinds whose value is looked at by itself where they are not wanted.
NAMED: Final = frozenset({"password", "generic_secret", "bearer_token"})
#: The last place of ASCII before which all is decided, or where a word begins after a blank.
_LAST_PLACE: Final = re.compile(r"(?s).*(?:\n|[.,;!?]\s|\s(?=[A-Za-z]))")


def _hold(piece: str) -> int:
    if TRIGGER.search(piece):
        hold = _HOT
    elif piece.isascii():
        found = _LAST_PLACE.match(piece)
        hold = _ALL if found is None else len(piece) - found.end()
    else:
        hold = _hold_of_letters(piece)
    if "\n" in piece and hold >= 0:
        hold = _LINE - min(hold, WINDOW)
    if len(piece) <= _LONGEST:
        if len(_HOLDS) >= _MOST_HOLDS:
            _HOLDS.clear()
        _HOLDS[piece] = hold
    return hold


def _hold_of_letters(piece: str) -> int:
    """The same of any piece without a trigger."""
    hold = _ALL
    for found in BREAK.finditer(piece):
        hold = len(piece) - found.end()
    for place in range(len(piece) - 1, 0, -1):
        if piece[place].isalpha() and piece[place - 1].isspace():
            hold = min(hold, len(piece) - place)
            break
    last = LAST_UNSPACED.search(piece)
    if last is not None:
        hold = min(hold, len(piece) - last.start() + UNSPACED_HOLD)
    return hold


class PiiStream:
    """A `safety.filter.Stream`. What starts before `_place` is decided; the buffer has _LEFT characters before it."""

    __slots__ = (
        "_cold",
        "_goes_on",
        "_joined",
        "_kind",
        "_kinds",
        "_offset",
        "_open",
        "_place",
        "_read",
        "_tables",
        "_text",
    )

    def __init__(self, kinds: Set[str]) -> None:
        self._kinds = kinds
        self._text = ""
        self._offset = 0
        self._place = 0
        # No trigger stands at or after `_place`.
        self._cold = True
        # The runs that the last match goes on with, and its kind.
        self._goes_on: tuple[re.Pattern[str], ...] = ()
        self._kind: str | None = None
        # Characters of the buffer from `_read` on are not looked at for tables: no line ends there.
        self._tables: Tables | None = None
        self._read = 0
        # While there is a table, or something of one is still to be told: what is told, and up to where all is decided.
        self._joined: Joined | None = None
        self._open = 0

    @property
    def open(self) -> int:
        """Nothing from this character on is decided."""
        return self._offset + self._place if self._joined is None else self._open

    def feed(self, text: str) -> Sequence[Match]:
        """The next piece; gives the matches that are certain now."""
        hold = _HOLDS.get(text)
        if hold is None:
            hold = _hold(text)
        self._text = whole = self._text + text
        length = len(whole)
        if hold == _HOT or not self._cold or length - len(text) > _KEPT:
            return self._look(length - len(text))
        if hold <= _LINE:
            self._place = max(self._place, length - (_LINE - hold))
            cells = self._look_at_tables([])
            self._cold = self._joined is None
            return cells
        if hold == _ALL and text[:1].isalpha() and whole[length - len(text) - 1 : length - len(text)].isspace():
            hold = len(text)
        place = length - (hold if hold < WINDOW else WINDOW)
        if place > self._place:
            self._place = place
        return ()

    def finish(self) -> Sequence[Match]:
        """The text has ended; gives the rest."""
        matches: list[Match] = []
        self._find(matches, len(self._text))
        self._place = len(self._text)
        if self._joined is not None and self._tables is not None:
            cells = [*self._tables.feed(self._text[self._read :]), *self._tables.finish()]
            matches = self._joined.take(matches, cells, self._offset + len(self._text))
            self._joined = None
        return self._wanted(matches)

    def _wanted(self, matches: list[Match]) -> list[Match]:
        return [match for match in matches if match.label in self._kinds] if matches else matches

    def _look(self, news: int) -> Sequence[Match]:
        """`news`: where the new part of the buffer begins."""
        matches: list[Match] = []
        text = self._text
        decided = len(text) - WINDOW
        told = MAY_BE_TOLD.search(text, max(self._place, decided))
        for found in BREAK.finditer(text, max(0, news - 2, decided - 2)):
            decided = max(decided, found.end())
        later = len(text) if told is None else told.start()
        self._find(matches, min(decided, later))
        if not text.isascii() and not SIGN.search(text, self._place):
            last = LAST_UNSPACED.search(text, self._place)
            # What follows a number may be a word that says what it is.
            if last is not None and not _DIGIT.search(text, max(0, last.start() + 1 - UNSPACED_HOLD), last.start()):
                self._find(matches, min(last.start() + 1 - UNSPACED_HOLD, later))
        if self._joined is not None or "\n" in text[news:]:
            matches = self._look_at_tables(matches)
        self._cold = self._joined is None and not self._goes_on and not TRIGGER.search(text, self._place)
        if self._place > 2 * _LEFT:
            cut = self._place - _LEFT
            if self._read < cut:
                self._read_on(cut)
            self._read -= cut
            self._text = text[cut:]
            self._offset += cut
            self._place = _LEFT
        return self._wanted(matches)

    def _look_at_tables(self, matches: list[Match]) -> list[Match]:
        """What can be told of the matches and of what tables have."""
        tables, cells = self._read_on(len(self._text))
        place = self._offset + self._place
        joined = self._joined
        if joined is None:
            if not cells and not tables.inside:
                return matches
            self._joined = joined = Joined()
        decided = min(place, tables.open)
        matches = joined.take(matches, cells, decided)
        self._open = max(decided, joined.end)
        if not tables.inside and not joined.waits and joined.end <= place:
            self._joined = None
        return matches

    def _read_on(self, end: int) -> tuple[Tables, list[Match]]:
        """Looks for tables up to there in the buffer."""
        tables = self._tables
        if tables is None:
            self._tables = tables = Tables(self._kinds & KINDS_OF_CELLS)
        cells = tables.feed(self._text[self._read : end])
        self._read = end
        return tables, cells

    def _find(self, matches: list[Match], decided: int) -> None:
        """All that begins before `decided`."""
        text, kinds = self._text, self._kinds
        place = self._place
        while True:
            if self._goes_on:
                place = self._go_on(matches, place)
                if self._goes_on:
                    break
            found = PLACE.search(text, place) if place < decided else None
            if found is None or found.start() >= decided:
                place = max(place, decided)
                break
            kind, start, end, self._goes_on = recognize(text, found)
            if kind in NAMED and kind not in kinds:
                kind, end, self._goes_on = None, max(start, found.start() + 1), ()
            elif kind is not None:
                matches.append(Match(self._offset + start, self._offset + end, kind))
            self._kind = kind
            place = end
        self._place = place

    def _go_on(self, matches: list[Match], place: int) -> int:
        """Tells more of the last match; `_goes_on` is empty when that has ended."""
        text, start = self._text, place
        while self._goes_on:
            place = run_end(self._goes_on[0], text, place)
            if place == len(text):
                break
            self._goes_on = self._goes_on[1:]
        if self._kind is not None and place > start:
            matches.append(Match(self._offset + start, self._offset + place, self._kind))
        return place
