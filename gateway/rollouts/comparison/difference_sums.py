"""Sums of many comparisons: whole numbers by name, so that workers can add theirs up in the store."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.rollouts.comparison.difference import AnswerDifference

#: Similarities and logarithms of lengths are summed in millionths.
_MILLION: Final = 1_000_000
#: Finish reasons are the API's few words; any other text is none of them.
_FINISHES: Final = frozenset({"stop", "length", "tool_calls", "content_filter", ""})
_OTHER: Final = "other"


class DifferenceReport(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of many pairs of answers. Shares are of `compared`, which are those where both sides answered;
    `greedy_same` is of those without randomness, and None where there are none.

    `length_ratio` is the geometric mean; `finishes` counts those that differ, as `stop>length`.
    """

    compared: int
    same: float
    alike: float
    greedy: int
    greedy_same: float | None
    similarity: float
    length_ratio: float
    broken: int
    calls: Mapping[str, int]
    finishes: Mapping[str, int]
    candidate_failed: int
    baseline_failed: int
    both_failed: int

    @property
    def failure_rate(self) -> float:
        """The part of the candidate's answers that failed where the baseline's did not."""
        asked = self.compared + self.candidate_failed
        return self.candidate_failed / asked if asked else 0.0


def counts_of(difference: AnswerDifference, similar: float) -> Counter[str]:
    """Give what one comparison adds to the sums, by name."""
    if difference.failed:
        return Counter({f"failed:{difference.failed}": 1})
    counts = Counter(
        {
            "compared": 1,
            "same": int(difference.same),
            "alike": int(difference.alike(similar)),
            "greedy": int(difference.greedy),
            "greedy_same": int(difference.greedy and difference.same),
            "similarity": round(difference.similarity * _MILLION),
            "length": round(math.log(difference.length_ratio) * _MILLION),
            "broken": int(difference.broken),
            f"calls:{difference.calls}": 1,
        }
    )
    if difference.baseline_finish != difference.candidate_finish:
        counts[f"finish:{_finish(difference.baseline_finish)}>{_finish(difference.candidate_finish)}"] = 1
    return counts


def report_of(counts: Mapping[str, int]) -> DifferenceReport:
    """Read the sums."""
    compared, greedy = counts.get("compared", 0), counts.get("greedy", 0)

    def mean(name: str) -> float:
        return counts.get(name, 0) / compared if compared else 0.0

    return DifferenceReport(
        compared=compared,
        same=mean("same"),
        alike=mean("alike"),
        greedy=greedy,
        greedy_same=counts.get("greedy_same", 0) / greedy if greedy else None,
        similarity=mean("similarity") / _MILLION,
        length_ratio=math.exp(mean("length") / _MILLION),
        broken=counts.get("broken", 0),
        calls=_named(counts, "calls:"),
        finishes=_named(counts, "finish:"),
        candidate_failed=counts.get("failed:candidate", 0),
        baseline_failed=counts.get("failed:baseline", 0),
        both_failed=counts.get("failed:both", 0),
    )


def _named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in sorted(counts.items()) if name.startswith(prefix)}


def _finish(finish: str) -> str:
    return finish if finish in _FINISHES else _OTHER
