"""How a prompt is worded: phrases that speak for an attempt or against one, with weights that were learned.

A logistic regression over the words, pairs and triples of words of a text (of scripts without spaces: over runs of 2 to
10 characters), each counted once. It was fitted to texts written for this project and to the training part of deepset's
public set (safety/sets/README.md); what is left of it here are phrases and numbers.
"""

import math
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from safety.folding import fold

#: Phrases count together that are this near, in characters.
REACH: Final = 280
#: Marks beyond ASCII that stand between words, and those that hang on one.
_BETWEEN: Final = "‹›—–…、。，！？：；「」『』（）【】《》・।؟،؛·•"
_HANGING: Final = "’‘ʼ´“”„«»"
_MARKS: Final = frozenset(_BETWEEN + _HANGING)
_LONGEST_WORD: Final = 32
_ASCII: Final = bytes(range(128))
#: Those of ASCII that hang on a word, which a blank follows as a rule.
_DROPPED: Final = b"'\".,;:!?)]}"
_TABLE: Final = bytes(
    ord("0") if 48 <= code < 58 else code + 32 if 65 <= code < 91 else code if 97 <= code < 123 or code >= 128 else 32
    for code in range(256)
)


class Worded(NamedTuple):
    """How much the wording speaks for an attempt, from 0 to 1, and the characters where it does most."""

    score: float
    start: int
    end: int


_NOTHING: Final = Worded(0.0, 0, 0)


class Phrases:
    """The learned phrases. `floor` is the least that those for an attempt must come to before anything is weighed."""

    def __init__(self, weights: dict[bytes, float], bias: float, floor: float) -> None:
        self._bias = bias
        self._floor = floor
        self._weights = list(weights.values())
        self._for = [max(0.0, weight) for weight in self._weights]
        self._automaton = BytesAhoCorasick(list(weights), implementation=Implementation.DFA)

    def score(self, text: str) -> Worded:
        """Of a whole text: its worst stretch of `REACH` characters. Linear in the text."""
        data = normalised(text)
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        of = self._for
        if sum([of[match[0]] for match in found]) < self._floor:
            return _NOTHING
        reach = REACH * max(1, len(data) // max(1, len(text)))
        best, start, end = self._worst(found, reach)
        # The worst of many stretches is worse than that of few, in harmless texts too.
        best -= math.log(max(1.0, 2 * len(data) / reach - 1))
        score = 1 / (1 + math.exp(-max(-30.0, min(30.0, best))))
        return Worded(score, *_place(text, data, start, end))

    def _worst(self, found: list[tuple[int, int, int]], reach: int) -> tuple[float, int, int]:
        """The highest sum of the weights of phrases that lie so near, each counted once, and where."""
        weights = self._weights
        there: dict[int, int] = {}
        best = total = self._bias
        begin = until = first = 0
        for index, _, end in found:
            oldest, place, _ = found[first]
            while place < end - reach:
                there[oldest] -= 1
                if not there[oldest]:
                    total -= weights[oldest]
                first += 1
                oldest, place, _ = found[first]
            count = there.get(index, 0)
            there[index] = count + 1
            if not count:
                total += weights[index]
                if total > best:
                    best, begin, until = total, place, end
        return best, begin, until


def normalised(text: str) -> bytes:
    """Words in lower case between single spaces, in UTF-8; each digit is a 0."""
    if text.isascii():
        data = text.encode()
    else:
        data = fold(text).encode("utf-8", "replace")
        for mark in _MARKS.intersection(data.translate(None, _ASCII).decode()):
            data = data.replace(mark.encode(), b"" if mark in _HANGING else b" ")
    data = b" %b " % data.translate(_TABLE, _DROPPED)
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data


def _place(text: str, data: bytes, start: int, end: int) -> tuple[int, int]:
    """About where in the text a stretch of its normal form is; what is told is never empty."""
    scale = len(text) / max(1, len(data))
    begin = min(int(start * scale), max(0, len(text) - 1))
    begin = text.rfind(" ", max(0, begin - _LONGEST_WORD), begin) + 1 or begin
    end = max(begin + 1, min(len(text), math.ceil(end * scale)))
    space = text.find(" ", end, end + _LONGEST_WORD)
    return begin, end if space < 0 else space


@lru_cache(maxsize=1)
def phrases() -> Phrases:
    """The ones that ship."""
    lines = files("safety.injection").joinpath("phrases.txt").read_text(encoding="utf-8").splitlines()
    head = dict(part.split("=") for part in lines[0].split())
    weights = {}
    for line in lines[1:]:
        number, _, phrase = line.partition("\t")
        weights[phrase.encode()] = int(number) / 100
    return Phrases(weights, float(head["bias"]), float(head["floor"]))
