"""Find rule matches in a streamed text."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from safety.injection.fold import BLANK, fold
from safety.injection.injection_rules import REACH, rules
from safety.injection.tally import Feature

#: A larger piece is searched in parts of this many characters.
_PART: Final = 4096
#: An upper bound on the bytes of an anchor in folded text.
_LONGEST: Final = 4 * REACH
_IS_BLANK: Final = re.compile(BLANK).match


class Finder:
    """A search for all rules in one text.

    Whether a match begins at a character depends only on the `REACH` characters from there on and on as many folded
    ones before; so the matches do not depend on where the text is cut.
    """

    def __init__(self) -> None:
        #: The first undecided character of the text.
        self.open = 0
        #: The undecided text, not folded, and the folded end of the text before it.
        self._held = ""
        self._behind = ""
        #: Whether an anchor stands at `open`, whose match needs `REACH` characters to be known.
        self.waits = False
        #: Whether any anchor was found.
        self.anchored = False

    def feed(self, text: str, *, last: bool = False) -> Iterator[Feature]:
        """Yield the features that the next piece makes certain, in order of start; `last`: the text ends with it."""
        for begin in range(0, max(1, len(text)), _PART):
            end = begin + _PART
            yield from self._search(text[begin:end], last=last and end >= len(text))

    def _search(self, piece: str, *, last: bool) -> Iterator[Feature]:
        part = _Part(self._behind, self._held + piece, last=last)
        size, undecided = len(part.raw), len(part.folded)
        self.waits = False
        for index, anchor in part.anchors():
            self.anchored = True
            if not last and part.origin(index) > size - REACH:
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
