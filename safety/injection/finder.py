"""Finds features in a text: cues where their words begin, and words of attacks in disguise.

Whether a feature begins at a character depends on the `BEHIND` characters before it and the `REACH` characters from it
on, and on nothing else; so a stream finds what the whole text has.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from safety.injection.context import weight
from safety.injection.cues import BEHIND, FULL, REACH, Cue
from safety.injection.disguise import KEYWORDS, MIXING, Disguise, decoded, joined, letters, spelled_out
from safety.injection.fold import begins, folded, has_lookalikes, is_itself, plain
from safety.injection.lexicon import WEAK, Anchor, Watched, lexicon
from safety.injection.stretches import Placed, Stretch, placed

EVASION: Final = "evasion"
ENCODED: Final = "encoded_instructions"
_CODES: Final = frozenset({"base64", "hex", "codes", "rot13", "reversed", "morse"})
#: A word that is only split or has an accent may be a slip.
_MILD: Final = {"split": 0.5, "accents": 0.4, "letters": 0.7, "digits": 0.8}
#: So many cues are looked for whatever words are there.
_SOME: Final = 16
#: So many are looked for whatever stands around.
_FEW: Final = 4
#: With so many anchors a text says the same often enough to remember it.
_MANY: Final = 200


class Feature(NamedTuple):
    """What speaks for an attempt, where, and how much. What has the same `key` is the same said again."""

    start: int
    end: int
    family: str
    share: float
    key: str


def find(stretch: Stretch) -> tuple[list[Feature], int | None]:
    """The features that begin in a stretch, in order, and the first anchor from its end on."""
    text, begin, end, _, anchors = stretch
    return _Search(text, begin, end).found(anchors) if anchors else ([], None)


class _View:
    """A window of a text from a place on, folded, and what stands before it.

    `starts`: where its characters stand in the text, if not one after the other. `code`: it says what so many
    characters of the text hide.
    """

    __slots__ = ("_ahead", "_before", "_behind", "_code", "_latin", "_starts", "_whole", "place", "text")

    def __init__(
        self, whole: str, place: int, text: str, starts: Sequence[int] | None, *, latin: bool = False, code: int = 0
    ) -> None:
        self.place = place
        self.text = text
        self._whole = whole
        self._starts = starts
        self._latin = latin
        self._code = code
        self._behind: str | None = None
        self._ahead: int | None = None
        self._before: int | None = None

    def length(self, end: int) -> int:
        """How many characters of the text the view's first `end` stand for."""
        if self._code or self._starts is None:
            return self._code or end
        return self._starts[end - 1] - self._starts[0] + 1

    def behind(self) -> str:
        """What stands before the view, folded."""
        if self._behind is None:
            text = self._whole[max(0, self.place - BEHIND) : self.place]
            self._behind = folded(text, latin=True).text if self._latin else plain(text)
        return self._behind

    def ahead(self) -> int:
        """Bits of the words of the view."""
        if self._ahead is None:
            self._ahead = lexicon().words.within(self.text)
        return self._ahead

    def before(self) -> int:
        """Bits of the words of what stands before."""
        if self._before is None:
            self._before = lexicon().words.within(self.behind())
        return self._before


def _key(cue: Cue, said: str) -> str:
    """What a cue says: by its name, and if it is a list of phrases by the phrase."""
    return cue.name if cue.ahead else f"{cue.name} {said}"


def _views(whole: str, place: int, window: str) -> list[_View]:
    """A window as it stands there, and with its disguises taken off if it has any."""
    starts: Sequence[int] | None = None
    if is_itself(window):
        shown = seen = window.lower()
    else:
        plainly = folded(window, latin=False)
        shown = seen = plainly.text
        starts = plainly.starts
    views = [_View(whole, place, shown, starts)]
    if starts is not None and has_lookalikes(window):
        unmasked = folded(window, latin=True)
        seen, starts = unmasked.text, unmasked.starts
    seen = letters(seen)
    if seen != shown:
        views.append(_View(whole, place, seen, starts))
    if "%" in window:
        unquoted = _QUOTED.sub(lambda sign: chr(int(sign[1], 16)), shown)
        if unquoted != shown:
            views.append(_View(whole, place, unquoted, None, code=len(window)))
    return views


def _open(text: str) -> str | None:
    """A folded stretch of text; None where disguises may hide some of its words."""
    if "%" in text or not is_itself(text):
        return None
    shown = text.lower()
    return None if MIXING.search(shown) else shown


_QUOTED: Final = re.compile(r"%([0-7][0-9a-f])")


class _Cued(NamedTuple):
    """A cue that was found at a place."""

    length: int
    family: str
    share: float
    key: str


def _may_be(view: _View, watched: Watched) -> bool:
    """Whether the words that a cue needs are there."""
    _, needs, needs_before, needs_around, _ = watched
    if (needs and not view.ahead() & needs) or (needs_before and not view.before() & needs_before):
        return False
    return not needs_around or all((view.ahead() | view.before()) & mask for mask in needs_around if mask)


def _cued(view: _View, cues: Sequence[Watched], ahead: int, least: int) -> Iterator[_Cued]:
    """Cues that a view begins with; they cover at least so many characters of it."""
    # Looking at the words saves looking for many cues, and takes longer than looking for some.
    if len(cues) > _SOME:
        if ahead and not view.ahead() & ahead:
            return
        cues = [each for each in cues if _may_be(view, each)]
    for cue, _, _, _, _ in cues:
        match = cue.here.match(view.text)
        if match is None or (cue.before is not None and not cue.before.search(view.behind())):
            continue
        if cue.around and not all(side.search(view.behind()) or side.search(view.text) for side in cue.sides):
            continue
        end = max(match.end(), least)
        share = cue.share if cue.share < WEAK else cue.share * weight(view.behind(), view.text, end, cue.family)
        yield _Cued(view.length(end), cue.family, share, _key(cue, view.text[:end]))


class _Search:
    """One search of a text."""

    def __init__(self, text: str, begin: int, end: int) -> None:
        self._text = text
        self._begin = begin
        self._end = end
        self._features: dict[tuple[int, str], Feature] = {}
        self._undecided: int | None = None
        #: The text, folded, if nothing in it is disguised.
        self._shown: str | None = None
        self._place = -1
        #: What stands around the place, and the bits of its words once they are needed.
        self._around: str | None = None
        self._near: int | None = None
        self._views: list[_View] | None = None
        self._known: dict[tuple[str, str, int], list[_Cued]] = {}
        self._repeats = False

    def found(self, anchors: Placed) -> tuple[list[Feature], int | None]:
        """What there is at these anchors, whose places are counted from where the search begins."""
        begin = self._begin
        self._repeats = len(anchors) > _MANY
        if len(anchors) * (BEHIND + REACH) > len(self._text):
            # Looking at all of the text once is quicker than at what is around each of so many.
            self._shown = _open(self._text)
        tricks: list[int] = []
        for place, anchor in anchors:
            if anchor.trick:
                tricks.append(begin + place)
            elif not anchor.bare and self._decides(begin + place):
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
        share /= FULL
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
        for cue in anchor.hints:
            self._add(place, place + anchor.length, cue.family, cue.share, cue.name)
        if anchor.cues:
            self._plain(place, anchor, window)
        for disguise in anchor.disguises:
            self._disguise(place, disguise, window)

    def _plain(self, place: int, anchor: Anchor, window: str) -> None:
        """Cues at a place; of many those that are known from the same words before."""
        if not self._repeats:
            found = self._cues_at(place, anchor, window)
        else:
            here = (self._text[max(0, place - BEHIND) : place], window, id(anchor))
            known = self._known.get(here)
            if known is None:
                known = self._known[here] = self._cues_at(place, anchor, window)
            found = known
        for length, family, share, key in found:
            self._add(place, place + length, family, share, key)

    def _cues_at(self, place: int, anchor: Anchor, window: str) -> list[_Cued]:
        """Cues at a place, in the window as it stands there, and with its disguises taken off."""
        begin = max(0, place - BEHIND)
        if place != self._place:
            self._place = place
            self._views = self._near = None
            shown, end = self._shown, place + REACH
            self._around = _open(self._text[begin:end]) if shown is None else shown[begin:end]
        cues = self._possible(anchor)
        if self._around is not None:
            seen = self._around[place - begin :]
            cues = [each for each in cues if each.cue.here.match(seen)]
            views = [_View(self._text, place, seen, None)] if cues else []
        elif self._views is None:
            views = self._views = _views(self._text, place, window)
        else:
            views = self._views
        return [found for view in views for found in _cued(view, cues, anchor.ahead, anchor.length)]

    def _possible(self, anchor: Anchor) -> Sequence[Watched]:
        """The anchor's cues, less those whose words are not around the place."""
        around = self._around
        # For few cues it takes as long to look at the words around as to look for the cues.
        if around is None or len(anchor.cues) <= _FEW:
            return anchor.cues
        near = self._near
        if near is None:
            near = self._near = lexicon().words.within(around)
        return [each for each in anchor.cues if near & each.near == each.near]

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
            if (place and text[place - 1].isalnum()) or not begins(window, keyword):
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
        seen = keyword + joined(plain(window[length:])) if said is None else said[max(0, said.find(keyword)) :]
        view = _View(text, place, seen, None, code=len(window))
        for found in _cued(view, lexicon().by_keyword[keyword], 0, 1):
            self._add(place, place + found.length, *found[1:])

    def _unmask(self, tricks: list[int]) -> None:
        """Anchors of the text with its letters unmasked, those that stand where letters were disguised."""
        begin = self._begin
        seen = folded(self._text[begin:] if begin else self._text, latin=True)
        starts = seen.starts
        for place, anchor in placed(seen.text):
            if not (anchor.cues or anchor.hints):
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
        for cue in anchor.hints:
            self._add(start, last + 1, cue.family, cue.share, cue.name)
        view = _View(self._text, start, window, starts, latin=True)
        for found in _cued(view, anchor.cues, anchor.ahead, anchor.length):
            self._add(start, start + found.length, *found[1:])


_CODE_SIGNS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=%\\"
