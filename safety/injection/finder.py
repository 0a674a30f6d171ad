"""Find rule matches in a streamed text."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, TypeVar

from safety.injection.fold import BLANK, fold
from safety.injection.injection_rules import REACH, rules
from safety.injection.tally import Feature

#: A larger piece is searched in parts of this many characters.
_PART: Final = 4096
#: An upper bound on the bytes of an anchor in folded text.
_LONGEST: Final = 4 * REACH
_IS_BLANK: Final = re.compile(BLANK).match


_Known = TypeVar("_Known")


class _InWords(dict[str, bool]):
    """Whether a character folds to one of the ASCII word characters, between which an anchor does not begin."""

    def __missing__(self, character: str) -> bool:
        folded = fold(character).text
        self[character] = in_words = folded.isascii() and (folded.isalnum() or folded == "_")
        return in_words


_IN_WORDS: Final = _InWords()
_MOST_KNOWN: Final = 65_536
_LONGEST_PIECE: Final = 16
_LONGEST_HELD: Final = 24
#: The decided text is folded when it has this many characters.
_KEPT: Final = 512
#: For pieces, after a word's character or not: how many characters at their end may begin an anchor; -1: search them.
_TAILS: Final[tuple[dict[str, int], dict[str, int]]] = ({}, {})
#: Whether what may have begun an anchor has not, as its next character or two show; after a word's character or not.
_ENDS: Final[tuple[dict[str, bool], ...]] = ({}, {}, {}, {})


class Finder:
    """A search for all rules in one text.

    Whether a match begins at a character depends only on the `REACH` characters from there on and on as many folded
    ones before; so the matches do not depend on where the text is cut.
    """

    def __init__(self) -> None:
        #: The first undecided character of the text.
        self.open = 0
        #: The undecided text, not folded, and the folded end of the text before it, ...
        self._held = ""
        self._behind = ""
        #: ... but for text that folds to as many characters and is not folded yet.
        self._passed = ""
        #: Whether the last character before `_held` is a word's.
        self._in_word = False
        #: Whether an anchor stands at `open`, whose match is not known yet: then no piece passes.
        self.waits = False
        #: Whether any anchor was found.
        self.anchored = False

    def passes(self, piece: str) -> bool:
        """Take the next piece if no anchor is in it, as is known of most; else `find` must search it."""
        if self.waits:
            return False
        held, in_word = self._held, self._in_word
        if held:
            if not piece or len(held) > _LONGEST_HELD:
                return False
            ends = _ENDS[in_word if len(piece) == 1 else in_word + 2]
            beginning = held + piece[:2]
            over = ends.get(beginning)
            if over is None:
                over = _remember(ends, beginning, _ends(in_word, beginning, len(held)))
            if not over:
                return False
            in_word = _IN_WORDS[held[-1]]
        tails = _TAILS[in_word]
        tail = tails.get(piece)
        if tail is None:
            if len(piece) > _LONGEST_PIECE:
                return False
            tail = _remember(tails, piece, _tail(in_word, piece))
        if tail < 0:
            return False
        cut = len(piece) - tail
        passed = held + piece[:cut]
        if passed:
            self._in_word = _IN_WORDS[passed[-1]]
            self.open += len(passed)
            self._passed = passed = self._passed + passed
            if len(passed) > _KEPT:
                self._passed = passed[-REACH:]
        self._held = piece[cut:]
        return True

    def find(self, text: str, *, last: bool = False) -> Iterator[Feature]:
        """Yield the features that the next piece makes certain, in order of start; `last`: the text ends with it."""
        if self._passed:
            self._behind = (self._behind + fold(self._passed).text)[-REACH:]
            self._passed = ""
        for begin in range(0, max(1, len(text)), _PART):
            end = begin + _PART
            yield from self._search(text[begin:end], last=last and end >= len(text))
        self._in_word = bool(self._behind) and _IN_WORDS[self._behind[-1]]

    def _search(self, piece: str, *, last: bool) -> Iterator[Feature]:
        part = _Part(self._behind, self._held + piece, last=last)
        size, undecided = len(part.raw), len(part.folded)
        self.waits = False
        for index, anchor in part.anchors():
            self.anchored = True
            if not last and part.origin(index) > size - REACH and part.may_match(index, anchor):
                undecided = index
                self.waits = True
                break
            yield from part.features(index, anchor, self.open)
        if not last:
            undecided = min(undecided, part.beginning(undecided))
        decided = part.origin(undecided)
        self.open += decided
        self._held = part.raw[decided:]
        self._behind = part.folded[:undecided][-REACH:]


def _remember(known: dict[str, _Known], text: str, value: _Known) -> _Known:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[text] = value
    return value


def _ends(in_word: bool, text: str, held: int) -> bool:
    """Whether neither an anchor is in a text nor may one that begins in the first `held` characters go on after it."""
    return (tail := _tail(in_word, text)) >= 0 and len(text) - tail >= held


def _tail(in_word: bool, text: str) -> int:
    """Return how many characters at the end of a text may begin an anchor; -1 if an anchor is in it.

    Also -1 if it folds to fewer characters.
    """
    folded = fold(text).text
    data = ("a" if in_word else "\n").encode() + folded.encode()
    if len(folded) < len(text) or rules().anchors.search(data, 1) is not None:
        return -1
    return len(data[rules().begin.search(data, 1).start() :].decode())


class _Part:
    """A part of a text that is searched at once: `raw` is not folded, `folded` is folded, with the text before it."""

    def __init__(self, behind: str, raw: str, *, last: bool) -> None:
        folded, self._starts = fold(raw)
        self.raw = raw
        self.folded = behind + folded
        self._behind = len(behind)
        # A line feed stands for the text's end.
        self._padded = self.folded + "\n" * last
        self._data = self._padded.encode()
        self._first = len(behind.encode())

    def origin(self, index: int) -> int:
        """Map a character of `folded` to its position in `raw`."""
        place = index - self._behind
        if self._starts is None:
            return place
        return self._starts[place] if place < len(self._starts) else len(self.raw)

    def _limit(self, index: int) -> int:
        """The end, in `folded`, of the `REACH` characters of the text that begin at `index`."""
        if self._starts is None:
            return index + REACH
        return self._behind + bisect_left(self._starts, self.origin(index) + REACH)

    def anchors(self) -> Iterator[tuple[int, str]]:
        """Yield the anchors in `folded`, in order, as (index, word)."""
        data, anchors, words = self._data, rules().anchors, rules().words
        index, byte = self._behind, self._first
        at = byte
        while found := anchors.search(data, at):
            start, end = found.span()
            index += len(data[byte:start].decode())
            byte, at = start, start + 1
            if self._starts is not None:
                # Characters beyond REACH must not influence the match.
                end = start + len(self._padded[index : self._limit(index)].encode())
                found = anchors.match(data, start, min(end, len(data)))
                if found is None:
                    continue
                end = found.end()
            anchor = data[start:end].decode()
            if anchor not in words or _IS_BLANK(self._padded, index + len(anchor)):
                yield index, anchor

    def beginning(self, until: int) -> int:
        """The index in `folded`, at most `until`, from which its end may be the beginning of an anchor."""
        data, begin = self._data, rules().begin
        at = max(self._first, len(data) - _LONGEST)
        while True:
            start = begin.search(data, at).start()
            index = len(data[:start].decode())
            if index >= until or self.origin(index) > len(self.raw) - REACH:
                return index
            at = start + 1

    def may_match(self, index: int, anchor: str) -> bool:
        """Whether a rule may match at an anchor of `folded`, or there is a longer anchor, once more text is there."""
        known = rules()
        if anchor not in known.of_anchor or known.begin.match(self._data, len(self.folded[:index].encode())):
            return True
        window = self.folded[index : self._limit(index)]
        before = self.folded[max(0, index - REACH) : index]
        return any(
            (rule.before is None or rule.before.search(before))
            and (rule.begin.fullmatch(window) or rule.here.match(window))
            for rule in known.of_anchor[anchor]
        )

    def features(self, index: int, anchor: str, base: int) -> list[Feature]:
        """The features that begin with an anchor of `folded`, the strongest per family; `base`: offset of `raw`."""
        known = rules()
        window = self._padded[index : self._limit(index)]
        before = self.folded[max(0, index - REACH) : index]
        found: dict[str, Feature] = {}
        for rule in known.of_anchor.get(anchor, known.disguises):
            match = rule.here.match(window)
            if match is None or (rule.before is not None and rule.before.search(before) is None):
                continue
            shares = [excuse.share for excuse in known.excuses if excuse.pattern.search(before)]
            weight = rule.weight * min(shares, default=1.0)
            if rule.family not in found or weight > found[rule.family].weight:
                end = min(index + match.end(), len(self.folded))
                found[rule.family] = Feature(
                    base + self.origin(index), base + self.origin(end - 1) + 1, rule.family, weight, rule.name
                )
        return list(found.values())
