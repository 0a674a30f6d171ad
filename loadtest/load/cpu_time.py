"""Measures the CPU time of a call."""

import time
from collections.abc import Callable

#: Runs of each measurement; the fastest counts, since other processes may slow one down.
RUNS = 5


def cpu_us(action: Callable[[], object], times: int) -> float:
    """Return the CPU microseconds of one call, in the fastest of RUNS runs of `times` calls."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        for _ in range(times):
            action()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6
