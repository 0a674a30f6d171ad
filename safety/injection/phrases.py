"""How a prompt is worded: phrases that speak for an attempt or against one, with weights that were learned.

A logistic regression over the words, pairs and triples of words of a text (of scripts without spaces: over runs of 2 to
8 characters), each counted once. It is fitted to texts written for this project (safety/injection/training).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from safety.folding import fold

#: Phrases count together that are this near, in characters.
REACH: Final = 280
#: With up to so many different phrases in a stretch each counts alike.
_FEW: Final = 12
_SCALE: Final = 3.0
#: With more stretches than this, those are looked for that are worth weighing.
_LONG: Final = 16
#: Follows the weight of a telling phrase.
TELLING: Final = "!"
#: Marks beyond ASCII that stand between words, and those that hang on one.
_BETWEEN: Final = "‹›—–…、。，！？：；「」『』（）【】《》・।؟،؛·•"
_HANGING: Final = "’‘ʼ´“”„«»"
_MARKS: Final = _BETWEEN + _HANGING
_LONGEST_WORD: Final = 32
#: Those of ASCII that hang on a word, which a blank follows as a rule.
_DROPPED: Final = b"'\".,;:!?)]}"
_TABLE: Final = bytes(
    ord("0") if 48 <= code < 58 else code + 32 if 65 <= code < 91 else code if 97 <= code < 123 or code >= 128 else 32
    for code in range(256)
)


class Worded(NamedTuple):
    """How much the wording speaks for an attempt, in log-odds, and the characters where it does most."""

    odds: float
    start: int
    end: int


class Phrases:
    """The learned phrases, and what a full score of features adds to their log-odds.

    `telling` are those with which it is worth while to look at a text; spaces around one stand for the ends of words.
    """

    def __init__(self, weights: dict[bytes, float], bias: float, features: float, telling: Sequence[str]) -> None:
        self.features: Final = features
        self.telling: Final = telling
        self._bias = bias
        self._weights = list(weights.values())
        self._for = [max(0.0, weight) for weight in self._weights]
        # Any text has some of them, and Hyperscan would have to take the interpreter's lock for each.
        self._automaton = BytesAhoCorasick(list(weights), implementation=Implementation.ContiguousNFA)

    def weigh(self, text: str, least: float = -math.inf) -> Worded | None:
        """The worst stretch of `REACH` characters of a whole text; None if that is not as bad as `least`.

        Without any phrase there is no such stretch, and it is empty. Linear in the text.
        """
        data = normalised(text)
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        of, offset = self._for, self._bias - penalty(len(text))
        if not found:
            return Worded(offset, 0, 0) if offset >= least else None
        reach = REACH * max(1, len(data) // max(1, len(text)))
        # Were all that speak for an attempt in one stretch, and nothing against one, it would come to this at most.
        if len(data) > _LONG * reach:
            found = self._bad(found, reach, (least - offset) / share(0))
        elif sum([of[index] for index in {match[0] for match in found}]) * share(0) + offset < least:
            return None
        if not found:
            return None
        best, start, end = self._worst(found, reach)
        odds = best + offset
        return Worded(odds, *_place(text, data, start, end)) if odds >= least else None

    def _bad(self, found: list[tuple[int, int, int]], reach: int, least: float) -> list[tuple[int, int, int]]:
        """Those in stretches of this length in which what speaks for an attempt comes to so much."""
        of = self._for
        sums = [0.0] * (found[-1][2] // reach + 2)
        for index, place, _ in found:
            sums[place // reach] += of[index]
        bad = [sums[block] + max(sums[block - 1], sums[block + 1]) >= least for block in range(len(sums) - 1)]
        return found if all(bad) else [each for each in found if bad[each[1] // reach]]

    def _worst(self, found: list[tuple[int, int, int]], reach: int) -> tuple[float, int, int]:
        """Of the stretches of this length, the highest sum of weights, each counted once, and where it is."""
        weights = self._weights
        there: dict[int, int] = {}
        total, best = 0.0, -math.inf
        begin = until = first = 0
        _, place, last = found[0]
        for index, _, end in found:
            if place < end - reach:
                value = total * share(len(there))
                if value > best:
                    best, begin, until = value, place, last
                while place < end - reach:
                    oldest = found[first][0]
                    if there[oldest] == 1:
                        del there[oldest]
                        total -= weights[oldest]
                    else:
                        there[oldest] -= 1
                    first += 1
                    place = found[first][1]
            if index in there:
                there[index] += 1
            else:
                there[index] = 1
                total += weights[index]
            last = end
        value = total * share(len(there))
        return (value, place, last) if value > best else (best, begin, until)


def share(phrases: int) -> float:
    """How much of each phrase's weight counts in a stretch with so many: what is long has some of everything."""
    return _SCALE / math.sqrt(max(phrases, _FEW))


def penalty(length: int) -> float:
    """What is taken from the score of a text: the worst of many stretches is worse than that of few."""
    return math.log(max(1.0, 2 * length / REACH - 1))


def normalised(text: str) -> bytes:
    """Words in lower case between single spaces, in UTF-8; each digit is a 0."""
    if text.isascii():
        data = text.encode()
    else:
        folded = fold(text)
        data = folded.encode("utf-8", "replace")
        for mark in _MARKS:
            if mark in folded:
                data = data.replace(mark.encode(), b"" if mark in _HANGING else b" ")
    data = b" %b " % data.translate(_TABLE, _DROPPED)
    return b" ".join((b"", *data.split(), b"")) if b"  " in data else data


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
    weights, telling = {}, []
    for line in lines[1:]:
        number, _, phrase = line.partition("\t")
        if number.endswith(TELLING):
            telling.append(phrase)
        weights[phrase.encode()] = int(number.rstrip(TELLING)) / 100
    return Phrases(weights, float(head["bias"]), float(head["features"]), telling)
