"""How much longer a test that is not sure yet has to wait, if what it sees stays as it is."""

from collections.abc import Callable
from math import ceil
from typing import Final, NamedTuple

import msgspec

from routing.rollouts.verdicts.verdict import Verdict

#: So many times what has been seen: nobody waits for longer, and what is seen by then is something else.
_MOST_TIMES: Final = 100.0
#: Steps of a search that halves an interval.
_STEPS: Final = 24


class StillNeeded(NamedTuple):
    """Requests of both versions that are needed still."""

    candidate: int
    baseline: int

    def __str__(self) -> str:
        return f"about {self.candidate} more requests of the candidate and {self.baseline} of the stable version"


#: Nothing is waited for.
NOTHING: Final = StillNeeded(0, 0)


class Waits(NamedTuple):
    """Why a verdict is too early, in a sentence, and what is needed until it is not; None: nobody can say."""

    reason: str
    needed: StillNeeded | None


def requests_for(more: float | None, candidate: int, baseline: int) -> StillNeeded | None:
    """Return `more` times the requests that each version has had; None: not known, or both have had too few."""
    if more is None or not candidate:
        return None
    return StillNeeded(ceil(more * candidate), ceil(more * baseline))


def with_needed(verdict: Verdict, needed: StillNeeded | None) -> Verdict:
    """Return the verdict with what is needed still."""
    candidate, baseline = (None, None) if needed is None else needed
    return msgspec.structs.replace(verdict, needed=candidate, needed_baseline=baseline)


def times_more(sure: Callable[[float], bool]) -> float | None:
    """Return how many times as much as was seen is needed besides until a test is sure; None: nobody can say.

    `sure` tells it of so many times what was seen, and stays true from where it first is.
    """
    low, high = 1.0, 2.0
    while not sure(high):
        low, high = high, 2.0 * high
        if low >= _MOST_TIMES:
            return None
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if sure(middle):
            high = middle
        else:
            low = middle
    return high - 1.0
