"""CPU time of one call."""

import time
from collections.abc import Callable

#: Runs of each measurement; the fastest counts, as the machine may do other things meanwhile.
RUNS = 5


def cpu_us(action: Callable[[], object], times: int) -> float:
    """CPU microseconds of one call, in the fastest of some runs of so many."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        for _ in range(times):
            action()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6
