"""Arrival processes: independent or bursty. Gaps have a mean of 1 and are scaled by the rate.

The same seed gives the same pattern at every rate, so that rates and policies are compared on equal requests.
"""

import random
from collections.abc import Callable, Sequence

#: Squared coefficient of variation of the bursty process's gaps: a Poisson process has 1.
BURSTINESS = 9.0


def poisson(count: int, rng: random.Random) -> list[float]:
    """Draw exponential gaps between independent arrivals."""
    return [rng.expovariate(1.0) for _ in range(count)]


def bursty(count: int, rng: random.Random) -> list[float]:
    """Draw gaps from a gamma distribution: many short ones, then a long one."""
    shape = 1 / BURSTINESS
    return [rng.gammavariate(shape, BURSTINESS) for _ in range(count)]


#: Arrival processes by command name.
ARRIVALS: dict[str, Callable[[int, random.Random], Sequence[float]]] = {"poisson": poisson, "bursty": bursty}
