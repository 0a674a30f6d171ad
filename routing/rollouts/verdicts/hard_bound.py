"""Whether an event happens more often than a bound allows, by a test that may be looked at after every request.

A mixture of likelihood ratios of higher rates against the bound itself is a supermartingale as long as the rate is
within the bound (Wald 1945; Robbins 1970): by Ville's inequality it reaches 1 / error with probability `error` at most.
A candidate that fails always is found after a handful of requests.
"""

from math import exp, inf, log, log1p
from typing import Final

#: Rates that are tried, as places between the bound and 1, by equal ratios.
_STEPS: Final = 16
#: Under such a bound an event may not happen at all: one is sure evidence.
_IMPOSSIBLE: Final = 1e-12


def log_evidence(events: float, among: float, bound: float) -> float:
    """Return the logarithm of the evidence that the rate is over `bound`; from log(1 / error) on it is sure."""
    if not events or events <= bound * among:
        return 0.0
    if bound < _IMPOSSIBLE:
        return inf
    found: list[float] = []
    for step in range(1, _STEPS + 1):
        # The last one is not 1: a single success would rule it out.
        rate = bound ** (1.0 - step / (_STEPS + 0.1))
        found.append(events * log(rate / bound) + (among - events) * (log1p(-rate) - log1p(-bound)))
    best = max(found)
    return max(best + log(sum([exp(each - best) for each in found]) / _STEPS), 0.0)
