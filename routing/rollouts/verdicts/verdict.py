"""The verdict of a comparison of two versions."""

from typing import Final, Literal

import msgspec

#: `leaning`: it looks worse, and is not sure. `too_few`: nothing can be said yet.
Standing = Literal["better", "as_good", "leaning", "worse", "too_few"]
Kind = Literal["better", "as_good", "worse", "inconclusive"]

#: With so much evidence, as a logarithm, a candidate is not held to be as good, though nothing is sure.
LEANING: Final = 1.0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of both versions, and the interval of its ratio, candidate over baseline, valid at any time.

    `measure` is one of `routing.rollouts.measures.events`, with `_p99` or `_trend` (growth a minute) behind a time's,
    or `error_rate`. Times are seconds (geometric means), rates are shares. `ratio` and `high` are None where they are
    not known. `stratum` is that of prompt lengths, None for all. `bound` is the hard bound that was tested, for those.
    `more` is how many times as many requests as both versions have had are needed besides until it is sure, if what is
    seen stays as it is; None: not known, or nothing is waited for.
    """

    measure: str
    standing: Standing
    baseline: float
    candidate: float
    ratio: float | None = None
    low: float = 0.0
    high: float | None = None
    stratum: int | None = None
    baseline_samples: int = 0
    candidate_samples: int = 0
    bound: float | None = None
    more: float | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a candidate. `reason` is a sentence for operators.

    `goal` compares the goal that the bounds name. `short`: it is inconclusive for want of requests alone. `unproven`
    says what too few answers have shown yet for the candidate to get most of the requests; empty: nothing. `needed` and
    `needed_baseline` are about how many more requests of the candidate and of the baseline will tell what is not known
    yet: of a goal a difference of the size that is of interest, else whether what looks worse is, or what is unproven;
    0: nothing is waited for, None: nobody can say.
    """

    kind: Kind
    reason: str
    comparisons: tuple[Comparison, ...] = ()
    goal: Comparison | None = None
    needed: int | None = 0
    needed_baseline: int | None = 0
    short: bool = False
    unproven: str = ""

    @property
    def bound_crossed(self) -> bool:
        """Whether a hard bound was crossed."""
        return any(each.bound is not None and each.standing == "worse" for each in self.comparisons)
