"""Finds features in a text: cues where their words begin, and words of attacks in disguise.

Whether a feature begins at a character depends on the `BEHIND` characters before it and the `REACH` characters from it
on, and on nothing else; so a stream finds what the whole text has.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from safety.injection.context import weight
from safety.injection.cues import BEHIND, REACH
from safety.injection.disguise import KEYWORDS, Disguise, decoded, letters, spelled_out
from safety.injection.fold import folded, plain
from safety.injection.lexicon import Anchor, Watched, encoded, lexicon

EVASION: Final = "evasion"
ENCODED: Final = "encoded_instructions"
_CODES: Final = frozenset({"base64", "hex", "codes", "rot13", "reversed", "morse"})
#: A word that is only split or has an accent may be a slip.
_MILD: Final = {"split": 0.5, "accents": 0.4, "letters": 0.7, "digits": 0.8}
_SIGNS: Final = frozenset("0134579@$!|")


class Feature(NamedTuple):
    """What speaks for an attempt, where, and how much. What has the same `key` is the same said again."""

    start: int
    end: int
    family: str
    share: float
    key: str


def find(text: str, begin: int = 0, end: int | None = None) -> tuple[list[Feature], int | None]:
    """The features that begin at a character from `begin` up to `end`, in order, and the first anchor from `end` on."""
    data = encoded(text[begin:] if begin else text)
    hits = lexicon().automaton.find_matches_as_indexes(data, overlapping=True)
    if not hits:
        return [], None
    return _Search(text, begin, len(text) if end is None else end).found(data, hits)


class _Search:
    """One search of a text."""

    def __init__(self, text: str, begin: int, end: int) -> None:
        self._text = text
        self._begin = begin
        self._end = end
        self._features: dict[tuple[int, str], Feature] = {}
        self._undecided: int | None = None

    def found(self, data: bytes, hits: Sequence[tuple[int, int, int]]) -> tuple[list[Feature], int | None]:
        """What there is at these places of the text's bytes."""
        begin = self._begin
        tricks: list[int] = []
        for place, anchor in _placed(data, hits):
            if anchor.trick:
                tricks.append(begin + place)
            elif self._decides(begin + place):
                self._anchor(begin + place, anchor)
        if tricks:
            self._unmask(tricks)
        return sorted(self._features.values()), self._undecided

    def _decides(self, place: int) -> bool:
        """Whether it can be told what begins at this place; if it is too early, that is kept in mind."""
        if place < self._end:
            return True
        if self._undecided is None or place < self._undecided:
            self._undecided = place
        return False

    def _add(self, start: int, end: int, family: str, share: float, key: str) -> None:
        """A feature; of those of one family that begin at one character, the strongest counts."""
        known = self._features.get((start, family))
        if known is None or share > known.share:
            self._features[start, family] = Feature(start, end, family, share, key)

    def _anchor(self, place: int, anchor: Anchor) -> None:
        text = self._text
        if anchor.opens and place and text[place - 1].isalnum():
            return
        window = text[place : place + REACH]
        if anchor.closes and window[anchor.length : anchor.length + 1].isalnum():
            return
        if anchor.cues:
            self._plain(place, anchor, window)
        for disguise in anchor.disguises:
            self._disguise(place, disguise, window)

    def _plain(self, place: int, anchor: Anchor, window: str) -> None:
        """Cues at a place, in the window as it stands there, or else with its disguises taken off."""
        ascii_only = window.isascii()
        if ascii_only:
            shown, starts = window.lower(), None
        else:
            whole = folded(window, latin=False)
            shown, starts = whole.text, whole.starts
        self._cues(place, anchor.cues, anchor.ahead, shown, starts)
        if ascii_only and _SIGNS.isdisjoint(window):
            return
        if not ascii_only:
            whole = folded(window, latin=True)
            starts = whole.starts
        seen = letters(shown if ascii_only else whole.text)
        if seen != shown:
            self._cues(place, anchor.cues, anchor.ahead, seen, starts)

    def _cues(self, place: int, cues: Sequence[Watched], ahead: int, shown: str, starts: Sequence[int] | None, *, latin: bool = False, code: int = 0) -> None:
        """Cues that a folded window begins with. `starts`: where its characters stand; `code`: so long is what it was made from."""
        words = lexicon().words
        there = words.within(shown)
        if ahead and not there & ahead:
            return
        behind: str | None = None
        before = 0
        for cue, needs, needs_before in cues:
            if needs and not there & needs:
                continue
            if needs_before:
                if behind is None:
                    behind, before = self._behind(place, latin)
                if not before & needs_before:
                    continue
            match = cue.here.match(shown)
            if match is None:
                continue
            if behind is None:
                behind, before = self._behind(place, latin)
            if cue.before is None or cue.before.search(behind):
                end = match.end()
                length = code or (end if starts is None else starts[end - 1] - starts[0] + 1)
                self._add(place, place + length, cue.family, cue.share * weight(behind, shown, end, cue.family), cue.name)

    def _behind(self, place: int, latin: bool) -> tuple[str, int]:
        """What stands before a place, folded, and the bits of its words."""
        text = self._text[max(0, place - BEHIND) : place]
        behind = folded(text, latin=True).text if latin else plain(text)
        return behind, lexicon().words.within(behind)

    def _disguise(self, place: int, disguise: Disguise, window: str) -> None:
        """A word in disguise, and the cues that begin with it if one sees through that."""
        keyword, technique = disguise.keyword, disguise.technique
        length = disguise.length
        said: str | None = None
        text = self._text
        if technique == "digits":
            if (place and text[place - 1].isalnum()) or not letters(plain(window)).startswith(keyword):
                return
            length = len(keyword)
        elif technique == "accents":
            if (place and text[place - 1].isalnum()) or not plain(window).startswith(keyword):
                return
            length = len(keyword)
        elif technique == "spelled":
            length = spelled_out(keyword, plain(window))
            if not length or (place and text[place - 1].isalnum()):
                return
        elif technique == "split":
            if place and text[place - 1].isalnum():
                return
        elif technique in ("base64", "hex"):
            said = decoded(disguise, text, place, place + REACH)
            if said is None:
                return
            length = len(window) - len(window.lstrip(_CODE_SIGNS))
        share = KEYWORDS[keyword] * _MILD.get(technique, 1.0)
        family = ENCODED if technique in _CODES else EVASION
        self._add(place, place + min(length, len(window)), family, share, f"{technique} {keyword}")
        seen = keyword + plain(window[length:]) if said is None else said[max(0, said.find(keyword)) :]
        self._cues(place, lexicon().by_keyword[keyword], 0, seen, None, code=len(window))

    def _unmask(self, tricks: list[int]) -> None:
        """Anchors of the text with its letters unmasked, those that stand where letters were disguised."""
        begin = self._begin
        seen = folded(self._text[begin:] if begin else self._text, latin=True)
        data = encoded(seen.text)
        starts = seen.starts
        for place, anchor in _placed(data, lexicon().automaton.find_matches_as_indexes(data, overlapping=True)):
            if not anchor.cues:
                continue
            start = begin + starts[place]
            last = begin + starts[place + anchor.length - 1]
            trick = bisect_left(tricks, start)
            if last - start >= REACH - 1 or trick == len(tricks) or tricks[trick] > last or not self._decides(start):
                continue
            stop = bisect_left(starts, start - begin + REACH, place)
            self._unmasked(start, last, anchor, seen.text[place:stop], starts[place:stop])

    def _unmasked(self, start: int, last: int, anchor: Anchor, window: str, starts: Sequence[int]) -> None:
        if anchor.opens and folded(self._text[max(0, start - BEHIND) : start], latin=True).text[-1:].isalnum():
            return
        if anchor.closes and window[anchor.length : anchor.length + 1].isalnum():
            return
        keyword = next((keyword for keyword in KEYWORDS if window.startswith(keyword)), None)
        if keyword is not None:
            self._add(start, last + 1, EVASION, KEYWORDS[keyword] * _MILD["letters"], f"letters {keyword}")
        self._cues(start, anchor.cues, anchor.ahead, window, starts, latin=True)


def _placed(data: bytes, hits: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, Anchor]]:
    """The anchors with the characters where they begin, in order."""
    anchors = lexicon().anchors
    place = byte = 0
    for start, which in sorted([(start, which) for which, start, _ in hits]):
        if start != byte:
            place += len(data[byte:start].decode("utf-8", "surrogatepass"))
            byte = start
        yield place, anchors[which]


_CODE_SIGNS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=%\\"

