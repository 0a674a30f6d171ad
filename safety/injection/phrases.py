"""Score the wording of a prompt: phrases with learned weights for or against an injection attempt.

A logistic regression over the words, pairs and triples of words of a text (in scripts without spaces: over runs of 2 to
8 characters), each counted once. It is fitted to texts written for this project (tools/injection).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from safety.folding import fold

#: The length of a stretch, in characters, whose phrases are added up.
REACH: Final = 280
#: Up to this many different phrases in a stretch count without damping.
_FEW: Final = 12
_SCALE: Final = 3.0
#: A text with more stretches than this is first reduced to those worth weighing.
_LONG: Final = 16
#: The mark after the weight of a telling phrase.
TELLING: Final = "!"
#: Non-ASCII punctuation between words, and punctuation attached to a word.
_BETWEEN: Final = "‹›—–…、。，！？：；「」『』（）【】《》・।؟،؛·•"
_HANGING: Final = "’‘ʼ´“”„«»"
_MARKS: Final = _BETWEEN + _HANGING
_LONGEST_WORD: Final = 32
#: ASCII punctuation attached to a word, which a space follows as a rule.
_DROPPED: Final = b"'\".,;:!?)]}"
_TABLE: Final = bytes(
    ord("0") if 48 <= code < 58 else code + 32 if 65 <= code < 91 else code if 97 <= code < 123 or code >= 128 else 32
    for code in range(256)
)


class WordingScore(NamedTuple):
    """The log-odds of an attempt by the wording, and the characters of the worst stretch."""

    odds: float
    start: int
    end: int


class Phrases:
    """The learned phrases; `features` is what a full score of features adds to their log-odds.

    `telling` phrases are strong enough that a text with one is weighed; spaces around one mark word boundaries.
    """

    def __init__(self, weights: dict[bytes, float], bias: float, features: float, telling: Sequence[str]) -> None:
        self.features: Final = features
        self.telling: Final = telling
        self._bias = bias
        self._weights = list(weights.values())
        self._positive = [max(0.0, weight) for weight in self._weights]
        # Any text has some of them, and Hyperscan's callback would take the interpreter's lock for each.
        self._automaton = BytesAhoCorasick(list(weights), implementation=Implementation.ContiguousNFA)

    def weigh(self, text: str, least: float = -math.inf) -> WordingScore | None:
        """Return the worst stretch of `REACH` characters of a whole text; None if its odds are below `least`.

        The stretch of a text without phrases is empty. Linear in the text.
        """
        data = normalised(text)
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        of, offset = self._positive, self._bias - penalty(len(text))
        if not found:
            return WordingScore(offset, 0, 0) if offset >= least else None
        reach = REACH * max(1, len(data) // max(1, len(text)))
        # An upper bound: all phrases with positive weight in one stretch, and none with a negative one.
        if len(data) > _LONG * reach:
            found = self._bad(found, reach, (least - offset) / share(0))
        elif sum([of[index] for index in {match[0] for match in found}]) * share(0) + offset < least:
            return None
        if not found:
            return None
        best, start, end = self._worst(found, reach)
        odds = best + offset
        return WordingScore(odds, *_place(text, data, start, end)) if odds >= least else None

    def _bad(self, found: list[tuple[int, int, int]], reach: int, least: float) -> list[tuple[int, int, int]]:
        """Select the hits in stretches of this length whose positive weights add up to `least` or more."""
        of = self._positive
        sums = [0.0] * (found[-1][2] // reach + 2)
        for index, place, _ in found:
            sums[place // reach] += of[index]
        bad = [sums[block] + max(sums[block - 1], sums[block + 1]) >= least for block in range(len(sums) - 1)]
        return found if all(bad) else [each for each in found if bad[each[1] // reach]]

    def _worst(self, found: list[tuple[int, int, int]], reach: int) -> tuple[float, int, int]:
        """Return (sum, start, end) of the stretch of this length with the most weight, each phrase counted once."""
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
    """The factor on each weight in a stretch with this many phrases; it damps long stretches."""
    return _SCALE / math.sqrt(max(phrases, _FEW))


def penalty(length: int) -> float:
    """The log-odds subtracted for a text's length: the worst of many stretches is worse than that of few."""
    return math.log(max(1.0, 2 * length / REACH - 1))


def normalised(text: str) -> bytes:
    """Normalise a text to lower-case words between single spaces, in UTF-8; each digit becomes 0."""
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
    """Map a stretch of the normal form to approximate positions in the text; the result is never empty."""
    scale = len(text) / max(1, len(data))
    begin = min(int(start * scale), max(0, len(text) - 1))
    begin = text.rfind(" ", max(0, begin - _LONGEST_WORD), begin) + 1 or begin
    end = max(begin + 1, min(len(text), math.ceil(end * scale)))
    space = text.find(" ", end, end + _LONGEST_WORD)
    return begin, end if space < 0 else space


@lru_cache(maxsize=1)
def phrases() -> Phrases:
    """Load the shipped phrases, once."""
    lines = files("safety.injection").joinpath("phrases.txt").read_text(encoding="utf-8").splitlines()
    head = dict(part.split("=") for part in lines[0].split())
    weights, telling = {}, []
    for line in lines[1:]:
        number, _, phrase = line.partition("\t")
        if number.endswith(TELLING):
            telling.append(phrase)
        weights[phrase.encode()] = int(number.rstrip(TELLING)) / 100
    return Phrases(weights, float(head["bias"]), float(head["features"]), telling)
