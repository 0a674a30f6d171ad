"""Goodput: searches the highest rate at which nearly all requests meet their targets, with few simulations."""

from collections.abc import Callable
from math import floor, sqrt
from typing import Final

import msgspec

from loadtest.simulation.flight import Outcome
from loadtest.simulation.simulation_metrics import meets
from routing.contracts.policy_settings import Targets

#: Share of all requests that must meet the targets.
REQUIRED: Final = 0.95
#: Factor by which the rate grows or shrinks until the answer is bracketed.
_STRIDE: Final = 1.5
#: Consecutive failures at slightly growing rates that are conclusive: a single one may be chance.
_FAILURES: Final = 3


class Goodput(msgspec.Struct, frozen=True):
    """`rate` is the highest one found to pass, in requests/s; 0 when even the lowest one fails.

    `bounded` is False when no rate up to the highest one failed. `tried` are all rates with their results.
    """

    rate: float
    bounded: bool
    tried: dict[float, bool]


class Misses:
    """Ends a run as soon as so many requests have missed their targets that it cannot pass."""

    def __init__(self, requests: int, targets: Targets, required: float = REQUIRED) -> None:
        self._left = floor(requests * (1 - required) + 1e-9)
        self._targets = targets

    def __call__(self, outcome: Outcome) -> bool:
        """Count an outcome; True once the run has failed."""
        if not meets(outcome, self._targets):
            self._left -= 1
        return self._left < 0


def find_goodput(
    passes: Callable[[float], bool], low: float, high: float, *, start: float | None = None, precision: float = 0.025
) -> Goodput:
    """Search between two rates from `start` (default: the lower one), to a relative precision.

    By chance a rate may fail although a higher one passes, so rates just above the answer are tried as well.
    """
    tried: dict[float, bool] = {}

    def try_at(rate: float) -> bool:
        if rate not in tried:
            tried[rate] = passes(rate)
        return tried[rate]

    best, failed = _bracket(try_at, low, high, min(max(start or low, low), high))
    if not best or not failed:
        return Goodput(best, bool(failed), tried)
    while failed / best > 1 + precision:
        middle = sqrt(best * failed)
        best, failed = (middle, failed) if try_at(middle) else (best, middle)
    failures = 1
    while failures < _FAILURES and failed < high:
        failed = min(high, failed * (1 + precision))
        if try_at(failed):
            best, failures = failed, 0
        else:
            failures += 1
    return Goodput(best, best < high, tried)


def _bracket(try_at: Callable[[float], bool], low: float, high: float, rate: float) -> tuple[float, float]:
    """Return a rate that passes and a higher one that fails, at most a stride apart; 0 for a missing one."""
    best = failed = 0.0
    while not (best and failed):
        if try_at(rate):
            best = rate
            if rate >= high:
                break
            rate = min(high, rate * _STRIDE)
        else:
            failed = rate
            if rate <= low:
                break
            rate = max(low, rate / _STRIDE)
    return best, failed
