"""Resource usage of processes: a worker's CPU time, memory and event-loop lag; others' as seen from outside."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from observability.metrics import declarations as declared
from observability.metrics.snapshot import Numbers, empty
from observability.ticks import until_tick

#: Seconds between measurements of an event loop's lag.
LAG_SECONDS: Final = 0.25
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WORKER: Final = "worker"


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """The CPU time and memory of a process."""

    cpu_seconds: float
    resident_bytes: int


def process_usage_of(pid: int | None = None) -> ProcessUsage | None:
    """Read the usage of a process, or of this one; None where the system does not tell, or it does not exist."""
    folder = f"/proc/{pid or 'self'}"
    try:
        # The second field is the program's name in brackets, which may contain anything.
        fields = Path(folder, "stat").read_bytes().rpartition(b")")[2].split()
        pages = int(Path(folder, "statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(ticks / _TICKS if pid else time.process_time(), pages * _PAGE)


class LoopLag:
    """Measures between `start` and `stop` how late a timer of this event loop is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = empty(declared.LOOP_LAG)
        self._clock = clock
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure."""
        now = self._clock()
        wait = until_tick(LAG_SECONDS, now)
        self._due = now + wait
        self._timer = asyncio.get_running_loop().call_later(wait, self.measure)

    def measure(self) -> None:
        """Add the lag of the timer that was due."""
        # Timers may be early by the loop's resolution.
        self.seconds.add(self._clock() - self._due, declared.LOOP_LAG.bounds)
        self.start()

    def stop(self) -> None:
        """Stop measuring. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class OwnProcess:
    """A worker's own usage, for its metrics file."""

    def __init__(self, lag: LoopLag) -> None:
        self._lag = lag

    def collect(self, numbers: Numbers) -> None:
        """Add the usage to the numbers."""
        numbers.put(declared.LOOP_LAG, self._lag.seconds)
        collect_usage(numbers, _WORKER, process_usage_of())


def collect_usage(numbers: Numbers, process: str, use: ProcessUsage | None) -> None:
    """Add a process's usage, where it is known."""
    if use is not None:
        numbers.set(declared.PROCESS_CPU, use.cpu_seconds, process)
        numbers.set(declared.PROCESS_RESIDENT, use.resident_bytes, process)


def collect_others(numbers: Numbers, pids: Mapping[str, int | None]) -> None:
    """Add the usage of this process, as `admin`, and of others by their names."""
    collect_usage(numbers, "admin", process_usage_of())
    for process, pid in pids.items():
        if pid is not None and sys.platform == "linux":
            collect_usage(numbers, process, process_usage_of(pid))
