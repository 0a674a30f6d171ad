"""What a filter finds: a stretch of a text."""

from collections.abc import Iterable
from typing import NamedTuple


class Match(NamedTuple):
    """Characters `start` to `end` (exclusive, counted in code points) of a text are a `label`.

    `label` is in lower case with underscores: a kind such as `credit_card`, or the name of a list. `score` is from 0 to
    1, where the filter has more than yes and no.
    """

    start: int
    end: int
    label: str
    score: float = 1.0


def merged(matches: Iterable[Match]) -> list[Match]:
    """Matches of one filter in their order, those that touch or overlap as one, of the first one's label.

    A match that a stream reports in parts, because it had no end yet, is whole again after this.
    """
    whole: list[Match] = []
    for match in matches:
        if whole and match.start <= whole[-1].end:
            last = whole[-1]
            whole[-1] = Match(last.start, max(last.end, match.end), last.label, max(last.score, match.score))
        else:
            whole.append(match)
    return whole
