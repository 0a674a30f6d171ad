"""Whether enough answers show that a candidate's shares of bad ones are not much higher.

A comparison that finds nothing may have seen too little: of 50 tool calls 3 in 100 broken ones are one or two. So the
difference that is to be ruled out is tested for itself, by a ratio of likelihoods: how much better the shares explain
what was counted than the nearest ones that differ by so much. It decides when a candidate may go on, never that it is
worse.
"""

from collections.abc import Sequence
from math import log
from typing import Final, NamedTuple

from routing.rollouts.measures.events import RATES, REQUESTS
from routing.rollouts.verdicts.blocks import Moment
from routing.rollouts.verdicts.rates import counted

#: The least difference that is ruled out, as a multiple of the one that is nobody's concern.
EFFECT: Final = 4.0
#: The logarithm of the ratio of likelihoods from which on it is: that of one chance in 20, at one look.
RULED_OUT: Final = 1.35
#: Evidence that is too little for anything to follow from it.
_LEAST_KNOWN: Final = 0.1
_GUARDING: Final = [name for name, rate in RATES.items() if rate.guards and not rate.told and rate.among != "thumbs"]
#: Steps of a search that halves an interval of shares.
_STEPS: Final = 40


class Unproven(NamedTuple):
    """A sentence's beginning: what is not ruled out. `more` is how many times as many requests besides would rule it
    out, if shares stay as they are; None: nobody can say.
    """

    said: str
    more: float | None


def unproven(moments: Sequence[Moment], worse: float) -> Unproven | None:
    """Say of which share a difference is not ruled out that many clients would notice; None: of none.

    It is `EFFECT` times `worse` of the answers of that kind, and more where they are so rare that it would be less than
    `worse` of all requests.
    """
    requests = sum(moment.candidate.counts.get(REQUESTS, 0) for moment in moments)
    for measure in _GUARDING:
        (events, among), (others, other_among) = counted(moments, RATES[measure])
        effect = max(EFFECT * worse, worse * requests / among) if among else 1.0
        if effect >= 1.0 or not other_among:
            continue
        found = evidence_against(events, among, others, other_among, effect)
        if found < RULED_OUT:
            counts = f"{events} of {among} beside {others} of {other_among}"
            said = f"{measure}: {counts} do not rule out that the share is {100 * effect:.2g} % higher"
            return Unproven(said, RULED_OUT / found - 1.0 if found > _LEAST_KNOWN else None)
    return None


def evidence_against(events: int, among: int, others: int, other_among: int, effect: float) -> float:
    """Return the logarithm of how much likelier the counts are by their own shares than by such as differ by `effect`.

    It is 0 where the candidate's share is higher by as much already.
    """
    ours, theirs = events / among, others / other_among
    if effect <= 0.0 or ours - theirs >= effect:
        return 0.0
    low, high = 0.0, 1.0 - effect

    def likelihood(share: float) -> float:
        return _log_likelihood(events, among, share + effect) + _log_likelihood(others, other_among, share)

    # It has one maximum.
    for _ in range(_STEPS):
        one, other = low + (high - low) / 3.0, high - (high - low) / 3.0
        if likelihood(one) < likelihood(other):
            low = one
        else:
            high = other
    free = _log_likelihood(events, among, ours) + _log_likelihood(others, other_among, theirs)
    return max(free - likelihood((low + high) / 2.0), 0.0)


def _log_likelihood(events: int, among: int, share: float) -> float:
    share = min(max(share, 1e-12), 1.0 - 1e-12)
    return events * log(share) + (among - events) * log(1.0 - share)
