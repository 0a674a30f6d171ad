"""Find personal data and secrets in a streamed or a whole text."""

import re
from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from safety.match import Match
from safety.pii.beginnings import begun
from safety.pii.columns import has_header
from safety.pii.places import REACH, TRIGGER, candidates, candidates_and_names, table
from safety.pii.tables import Cell, Tables
from safety.pii.text_window import BREAK, LEFT, UNSPACED, WINDOW, Found, Runs, run_end

#: The buffer is cut when this many of its characters are decided.
_KEPT: Final = 4 * LEFT
#: A TRIGGER that ends in a piece begins at most this many characters before it.
_BEFORE: Final = 2
#: A BREAK that ends in a piece begins at most this many characters before it (scripts without spaces).
_BREAKING: Final = 9
#: Kinds found by a name before the value: if not selected, other rules examine the value.
_NAMED: Final = frozenset({"password", "generic_secret", "bearer_token"})
#: A character that may be amid a value after a name, or a quote before one, and that ends a word.
_IN_VALUES: Final = re.compile(r"[^\w\s%&+.,;<>(){}，。！？；、…\-]")
#: Characters that a BREAK has.
_MAY_BREAK: Final = re.compile(rf"[\s，。！？；、…{UNSPACED}]")
_SMALL: Final = "[a-zß-öø-ſα-ωά-ώа-ѓєіїґա-ևא-תء-غف-ي\u0904-\u0939\u093e-\u094d]"
_WORD: Final = f"(?:[A-ZА-Я]?{_SMALL}(?:{_SMALL}|[.])*)"
_PIECE: Final = re.compile(rf"(?:{_SMALL}|[.])*(?:(?: |[,;)]{{1,2}} ?){_WORD})*(?:[,;)]{{0,2}} ?)")
#: The end of a piece that may go on as a word: all before it is over.
_OVER: Final = re.compile(r".*(?:[,;)] ?| (?=.*[^ ]))", re.DOTALL)
#: Words up to this length, of small letters but for the first, have no match in them.
_LONGEST_WORD: Final = 12
#: The same near a TRIGGER, where a value that is not near a name has more characters.
_LONGEST_NEAR: Final = 7
_UNDECIDED_WORD: Final = re.compile(f"{_WORD}? ?")
_MOST_PIECES: Final = 65_536
_LONGEST_PIECE: Final = 16


class _Piece(NamedTuple):
    """A piece of words of small letters.

    `size`: the characters of the word at its end, and of a space after it; `ends_word`: the word before it is over.
    """

    size: int
    ends_word: bool
    begins_spaced: bool
    ends_spaced: bool


#: Larger than the longest word.
_ANY: Final = 1_000_000
_OTHER: Final = _Piece(_ANY, True, False, False)
#: A cache of pieces; `_OTHER` for those of other characters.
_PIECES: Final[dict[str, _Piece]] = {}


def _read_piece(text: str) -> _Piece:
    piece = _OTHER
    if 0 < len(text) <= _LONGEST_PIECE and _PIECE.fullmatch(text) is not None:
        over = _OVER.match(text)
        size = len(text) - (0 if over is None else over.end())
        piece = _Piece(size, over is not None, text[0] == " ", size > 0 and text[-1] == " ")
    if len(text) <= _LONGEST_PIECE:
        if len(_PIECES) >= _MOST_PIECES:
            _PIECES.clear()
        _PIECES[text] = piece
    return piece


def calm_end(text: str) -> int | None:
    """Say how a calm text ends after a piece (`safety.calm`)."""
    size, ends_word, _, ends_spaced = _PIECES.get(text) or _read_piece(text)
    if size > _LONGEST_WORD or ends_spaced:
        return None
    return size if ends_word else -size


class PiiStream:
    """The `Stream` of a PiiFilter. Text before `_place` is decided; the buffer keeps LEFT characters before it."""

    __slots__ = (
        "_cells",
        "_in_table",
        "_kind",
        "_kinds",
        "_longest_word",
        "_offset",
        "_place",
        "_read",
        "_runs",
        "_spaced",
        "_tables",
        "_text",
        "_trigger",
        "_word",
        "open",
    )

    def __init__(self, kinds: Set[str]) -> None:
        self._kinds = kinds
        self.open = 0
        self._text = ""
        #: The buffer's offset in the text; all other positions are relative to it.
        self._offset = 0
        self._place = 0
        #: The end of the last TRIGGER, or later.
        self._trigger = -LEFT
        #: The characters of the word at the end, and of a space after it; nothing else is undecided while they are no
        #: more than `_longest_word`, which is -1 if other text is.
        self._longest_word = _LONGEST_WORD
        self._word = 0
        self._spaced = False
        #: The remaining runs of the last match, and its kind.
        self._runs: Runs = ()
        self._kind: str | None = None
        #: Created when the first line ends. It has read up to `_read`; its cells begin at `_place` or later.
        self._tables: Tables | None = None
        self._read = 0
        self._cells: list[Cell] = []
        self._in_table = False

    def feed(self, text: str) -> Sequence[Match]:
        self._text = whole = self._text + text
        piece = _PIECES.get(text) or _read_piece(text)
        word, ends_word, begins_spaced, ends_spaced = piece
        if self._spaced:
            if begins_spaced:
                word = _ANY
        elif not ends_word:
            word += self._word
        # A word that a space and a letter follow begins no match.
        if word > self._longest_word:
            return self._advance(text)
        self._word, self._spaced = word, ends_spaced
        self._place = place = len(whole) - word
        self.open = self._offset + place
        if place > _KEPT:
            self._cut(place - LEFT)
        return ()

    @property
    def calm_word(self) -> int:
        return -1 if self._spaced else self._longest_word

    def pass_by(self, text: str, word: int) -> None:
        self._text += text
        self._word, self._place = word, len(self._text) - word
        self.open = self._offset + self._place
        if self._place > _KEPT:
            self._cut(self._place - LEFT)

    def _advance(self, text: str) -> Sequence[Match]:
        """Decide on the text after a new piece up to where a match may begin."""
        whole, place = self._text, self._place
        length = len(whole)
        if TRIGGER.search(whole, max(0, length - len(text) - _BEFORE)) is not None:
            self._trigger = length
        begin = begun(whole, place)
        decided = max(place, length - WINDOW + 1)
        if _MAY_BREAK.search(whole, place) is not None:
            for found in BREAK.finditer(whole, max(0, place - _BREAKING)):
                decided = max(decided, found.end())
        if begin < decided:
            begin = begun(whole, decided)
        if begin == place < length and not (self._runs or self._in_table):
            self._longest_word = -1
            return ()
        near = bool(self._trigger > place - REACH or self._runs or self._cells)
        places: list[tuple[int, int, int]] = []
        longest = -1 if near else _LONGEST_WORD
        if begin > place and (near or _IN_VALUES.search(whole, max(0, decided - 1)) is not None):
            # A space ends names that a value may follow at once.
            places, named = self._candidates(" ")
            longest = -1 if places or named else _LONGEST_NEAR
            for at, _, _ in places:
                if decided <= at:
                    begin = min(begin, at)
                    break
        if self._in_table or "\n" in text:
            begin = min(begin, self._read_tables())
        matches: list[Match] = []
        if begin > place or self._runs:
            if self._runs or self._cells or (near and places and places[0][0] < begin):
                matches = self._find(begin, places)
            else:
                self._place = begin
        place = self._place
        if self._runs or self._cells or self._in_table or _UNDECIDED_WORD.fullmatch(whole, place) is None:
            longest = -1
        self._longest_word = longest
        self._word, self._spaced = length - place, whole.endswith(" ", place)
        self.open = self._offset + place
        if place > _KEPT:
            self._cut(place - LEFT)
        return matches

    def _candidates(self, end: str = "") -> tuple[list[tuple[int, int, int]], bool]:
        """Return the candidates from `_place` on, if the text ended so, and whether a value's name is near."""
        first = max(0, self._place - LEFT)
        text = self._text[first:] + end
        places, named = candidates_and_names(text, text.encode("utf-8", "replace"), self._place - first)
        return [(place + first, number, start + first) for place, number, start in places], named

    def finish(self) -> Sequence[Match]:
        end = len(self._text)
        if self._in_table:
            self._read_tables(ended=True)
        matches = self._find(end, self._candidates()[0])
        self._place = end
        self.open = self._offset + end
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

    def _find(self, decided: int, places: list[tuple[int, int, int]]) -> list[Match]:
        """Return the matches that begin before `decided`, at some of these places."""
        matches: list[Match] = []
        if self._runs:
            self._place = self._extend(matches, self._place)
            if self._runs or decided <= self._place:
                return [match for match in matches if match.label in self._kinds]
        matches += self._matches_at(places, decided)
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
