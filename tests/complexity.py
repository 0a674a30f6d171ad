"""What work costs, told without a look at how fast the machine is: its growth with its input, and its steps."""

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

#: Work that is linear takes twice as long for twice the input, quadratic work four times.
LINEAR = 3.0
_TRIES = 5


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times the CPU time of a size its double takes; `work` prepares a size, and only its result is timed.

    Both sizes are run in turn, and the shortest time of each counts: whatever else the machine does only adds to it.
    """
    small, large = work(size), work(2 * size)
    shortest = [float("inf")] * 2
    for _ in range(_TRIES):
        for place, run in enumerate((small, large)):
            began = time.process_time()
            run()
            shortest[place] = min(shortest[place], time.process_time() - began)
    return shortest[1] / shortest[0]


def bytecodes(run: Callable[[], object]) -> int:
    """How many instructions of Python run; what happens inside a function in C counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
