"""When requests arrive where no trace says so: independently or in bursts. Gaps have a mean of 1; rates scale them.

The same seed gives the same pattern at every rate, so that rates and policies are compared on the same requests.
"""

import random
from collections.abc import Callable, Sequence

#: Squared coefficient of variation of the bursty process's gaps: a Poisson process has 1.
BURSTINESS = 9.0


def poisson(count: int, rng: random.Random) -> list[float]:
    """Gaps between independent arrivals: exponential."""
    return [rng.expovariate(1.0) for _ in range(count)]


def bursty(count: int, rng: random.Random) -> list[float]:
    """Gaps of a gamma distribution: many short ones, then a long one."""
    shape = 1 / BURSTINESS
    return [rng.gammavariate(shape, BURSTINESS) for _ in range(count)]


#: By the names that the command uses.
ARRIVALS: dict[str, Callable[[int, random.Random], Sequence[float]]] = {"poisson": poisson, "bursty": bursty}
