"""A match: a labelled span of a text."""

from collections.abc import Iterable
from typing import NamedTuple


class Match(NamedTuple):
    """A span of a text with its label: characters `start` to `end` (exclusive, in code points).

    `label` is in lower case with underscores: a kind such as `credit_card`, or the name of a list. `score` is from 0 to
    1; a filter without scores gives 1.
    """

    start: int
    end: int
    label: str
    score: float = 1.0


def merged(matches: Iterable[Match]) -> list[Match]:
    """Join the matches of one filter that touch or overlap, under the first one's label.

    This also joins the parts of a match that a stream reported before its end was known.
    """
    whole: list[Match] = []
    for match in matches:
        if whole and match.start <= whole[-1].end:
            last = whole[-1]
            whole[-1] = Match(last.start, max(last.end, match.end), last.label, max(last.score, match.score))
        else:
            whole.append(match)
    return whole
