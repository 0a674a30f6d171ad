"""Validate what guards return and make it matches."""

import re
import traceback
from collections.abc import Iterable
from itertools import pairwise
from math import isfinite
from typing import Final

from safety.guard import GuardFailed
from safety.match import Match

#: Bound on the matches in one text.
MAX_MATCHES: Final = 10_000
MAX_LABEL: Final = 64
_LABEL: Final = re.compile(rf"[a-z0-9_]{{1,{MAX_LABEL}}}")
_NO_LABEL: Final = re.compile(r"[^a-z0-9]+")
_MAX_KIND: Final = 64


def checked(found: object, length: int) -> tuple[Match, ...]:
    """Check a guard's matches in a text of so many characters. Raises GuardFailed for invalid ones.

    The result is in order and without overlaps, but several matches may cover the same span.
    """
    if not isinstance(found, list | tuple):
        raise GuardFailed("its verdict is no list")
    if len(found) > MAX_MATCHES:
        raise GuardFailed(f"more than {MAX_MATCHES} matches")
    matches = tuple(_checked_one(each, length) for each in found)
    for before, after in pairwise(matches):
        if after.start < before.end and after[:2] != before[:2]:
            raise GuardFailed("matches out of order, or overlapping")
    return matches


def label_of(name: str) -> str:
    """Convert a guard's name of a kind to a label. Raises GuardFailed where nothing is left of it."""
    label = _NO_LABEL.sub("_", name[: 4 * MAX_LABEL].lower()).strip("_")[:MAX_LABEL]
    if not label:
        raise GuardFailed("a match without a label")
    return label


def disjoint(matches: Iterable[Match]) -> list[Match]:
    """Sort matches; merge overlapping ones under the label with the highest score."""
    found: list[Match] = []
    for match in sorted(matches, key=lambda match: (match.start, match.end)):
        if found and match.start < found[-1].end:
            last = found[-1]
            best = match if match.score > last.score else last
            found[-1] = Match(last.start, max(last.end, match.end), best.label, best.score)
        else:
            found.append(match)
    return found


def kind_of(error: BaseException) -> str:
    """Describe an error by its class and place, without its text, which may repeat the guarded text."""
    kind = type(error).__name__[:_MAX_KIND]
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return f"{kind} in {frames[0].filename.rpartition('/')[2]}:{frames[0].lineno}" if frames else kind


def _checked_one(found: object, length: int) -> Match:
    if not isinstance(found, tuple) or len(found) != 4:
        raise GuardFailed("a match that is not start, end, label and score")
    start, end, label, score = found
    # `bool` is an `int`, too, and a subclass could behave in any way.
    if type(start) is not int or type(end) is not int:
        raise GuardFailed("a match whose bounds are no integers")
    if not 0 <= start < end <= length:
        raise GuardFailed(f"a match of characters {start} to {end} in a text of {length}")
    if type(label) is not str or not _LABEL.fullmatch(label):
        raise GuardFailed(f"a match whose label is not 1 to {MAX_LABEL} lower-case letters, digits and underscores")
    if type(score) not in (int, float) or not isfinite(score) or not 0 <= score <= 1:
        raise GuardFailed("a match whose score is not from 0 to 1")
    return Match(start, end, label, float(score))
