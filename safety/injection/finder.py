"""Finds features in a text: cues where their words begin, and words of attacks in disguise.

Whether a feature begins at a character depends on the `BEHIND` characters before it and the `REACH` characters from it
on, and on nothing else; so a stream finds what the whole text has.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from safety.injection.context import weight
from safety.injection.cues import BEHIND, REACH, Cue
from safety.injection.disguise import KEYWORDS, Disguise, decoded, letters, spelled_out
from safety.injection.fold import folded, plain
from safety.injection.lexicon import Anchor, encoded, lexicon

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
        if anchor.whole and place and text[place - 1].isalnum():
            return
        window = text[place : place + REACH]
        if anchor.cues:
            self._cues(place, anchor.cues, plain(window) if window.isascii() else None, window)
        for disguise in anchor.disguises:
            self._disguise(place, disguise, window)

    def _cues(self, place: int, cues: Sequence[Cue], shown: str | None, window: str) -> None:
        """Cues at a place, in the window as it stands there, and with its disguises taken off."""
        starts: Sequence[int] | None = None
        other: str | None = None
        if shown is None:
            whole = folded(window, latin=False)
            shown, starts = whole.text, whole.starts
        behind: str | None = None
        for cue in cues:
            match = cue.here.match(shown)
            length = match.end() if match else 0
            if match and starts is not None:
                length = _original(length, starts, len(window))
            if match is None:
                if other is None:
                    other = _undisguised(window)
                if other != "":
                    match = cue.here.match(other)
                    length = min(match.end(), len(window)) if match else 0
            if match is None:
                continue
            if behind is None:
                behind = plain(self._text[max(0, place - BEHIND) : place])
            if cue.before is None or cue.before.search(behind):
                share = cue.share * weight(behind, shown, match.end(), cue.family)
                self._add(place, place + length, cue.family, share, cue.name)

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
        behind = plain(text[max(0, place - BEHIND) : place])
        for cue in lexicon().by_keyword[keyword]:
            if cue.here.match(seen) and (cue.before is None or cue.before.search(behind)):
                self._add(place, place + len(window), cue.family, cue.share, cue.name)

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
        behind = folded(self._text[max(0, start - BEHIND) : start], latin=True).text
        if anchor.whole and behind[-1:].isalnum():
            return
        keyword = next((keyword for keyword in KEYWORDS if window.startswith(keyword)), None)
        if keyword is not None:
            self._add(start, last + 1, EVASION, KEYWORDS[keyword] * _MILD["letters"], f"letters {keyword}")
        for cue in anchor.cues:
            match = cue.here.match(window)
            if match and (cue.before is None or cue.before.search(behind)):
                end = start + 1 + (starts[match.end() - 1] - starts[0] if match.end() else 0)
                self._add(start, end, cue.family, cue.share * weight(behind, window, match.end(), cue.family), cue.name)


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


def _original(length: int, starts: Sequence[int], whole: int) -> int:
    """How many characters of the text the first `length` of its folded form are."""
    return starts[length] if length < len(starts) else whole


def _undisguised(window: str) -> str:
    """The window with letters for look-alikes, digits and signs, if that changes it; else nothing."""
    if window.isascii():
        if _SIGNS.isdisjoint(window):
            return ""
        shown = window.lower()
        seen = letters(shown)
    else:
        shown = plain(window)
        seen = letters(folded(window, latin=True).text)
    return "" if seen == shown else seen
