"""Finds where rules match in a text that comes in pieces."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from safety.injection.fold import BLANK, fold
from safety.injection.injection_rules import REACH, rules
from safety.injection.tally import Feature

#: A larger piece is searched in parts.
_PART: Final = 4096
#: Bytes of folded text that are no fewer than any word's that a match begins with.
_LONGEST: Final = 4 * REACH
_IS_BLANK: Final = re.compile(BLANK).match


class Finder:
    """The rules that match in one text.

    Whether one begins at a character depends on `REACH` characters from there on, on as many folded ones before, and
    on nothing else; so what is found does not depend on where the text is cut.
    """

    def __init__(self) -> None:
        #: From this character of the text on nothing is decided.
        self.open = 0
        #: What is undecided, as it came, and the end of what stands before it, folded.
        self._held = ""
        self._behind = ""
        #: Whether a word stands at `open` with which a match may begin, once `REACH` characters are known.
        self.waits = False
        #: Whether any such word was found.
        self.anchored = False

    def feed(self, text: str, *, last: bool = False) -> Iterator[Feature]:
        """The features that are certain with the next piece, in order of their begin; `last`: the text ends with it."""
        for begin in range(0, max(1, len(text)), _PART):
            end = begin + _PART
            yield from self._look(text[begin:end], last=last and end >= len(text))

    def _look(self, piece: str, *, last: bool) -> Iterator[Feature]:
        part = _Part(self._behind, self._held + piece, last=last)
        size, undecided = len(part.raw), len(part.seen)
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
        self._behind = part.seen[:undecided][-REACH:]


class _Part:
    """A part of a text that is searched at once: `raw` as it came, `seen` folded with what stands before it."""

    def __init__(self, behind: str, raw: str, *, last: bool) -> None:
        folded, self._starts = fold(raw)
        self.raw = raw
        self.seen = behind + folded
        self._behind = len(behind)
        # A line's end stands for the text's end.
        self._padded = self.seen + "\n" * last
        self._data = self._padded.encode()
        self._first = len(behind.encode())

    def origin(self, index: int) -> int:
        """Where the character of `seen` stands in `raw`."""
        place = index - self._behind
        if self._starts is None:
            return place
        return self._starts[place] if place < len(self._starts) else len(self.raw)

    def _limit(self, index: int) -> int:
        """The end, in `seen`, of the `REACH` characters of the text that begin there."""
        if self._starts is None:
            return index + REACH
        return self._behind + bisect_left(self._starts, self.origin(index) + REACH)

    def anchors(self) -> Iterator[tuple[int, str]]:
        """Where in `seen` a match may begin, in order, and with which word."""
        data, anchors, words = self._data, rules().anchors, rules().words
        index, byte = self._behind, self._first
        at = byte
        while found := anchors.search(data, at):
            start, end = found.span()
            index += len(data[byte:start].decode())
            byte, at = start, start + 1
            if self._starts is not None:
                # Nothing beyond the characters that count may have a say.
                end = start + len(self._padded[index : self._limit(index)].encode())
                found = anchors.match(data, start, min(end, len(data)))
                if found is None:
                    continue
                end = found.end()
            anchor = data[start:end].decode()
            if anchor not in words or _IS_BLANK(self._padded, index + len(anchor)):
                yield index, anchor

    def beginning(self, until: int) -> int:
        """Where in `seen` its end begins that may be the beginning of such a word, if that is before `until`."""
        data, begin = self._data, rules().begin
        at = max(self._first, len(data) - _LONGEST)
        while True:
            start = begin.search(data, at).start()
            index = len(data[:start].decode())
            if index >= until or self.origin(index) > len(self.raw) - REACH:
                return index
            at = start + 1

    def features(self, index: int, anchor: str, base: int) -> list[Feature]:
        """What begins at a place of `seen` with that word, of each family the strongest; `base`: where `raw` begins."""
        known = rules()
        window = self._padded[index : self._limit(index)]
        before = self.seen[max(0, index - REACH) : index]
        found: dict[str, Feature] = {}
        for rule in known.of_anchor.get(anchor, known.disguises):
            match = rule.here.match(window)
            if match is None or (rule.before is not None and rule.before.search(before) is None):
                continue
            shares = [excuse.share for excuse in known.excuses if excuse.pattern.search(before)]
            weight = rule.weight * min(shares, default=1.0)
            if rule.family not in found or weight > found[rule.family].weight:
                end = min(index + match.end(), len(self.seen))
                found[rule.family] = Feature(
                    base + self.origin(index), base + self.origin(end - 1) + 1, rule.family, weight, rule.name
                )
        return list(found.values())
