"""Processes of a benchmark: start them on a core, read what they use from /proc, end them by their id. Linux only."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: How Linux makes a clock's number of a process's.
_PID_SHIFT: Final = 3
_ALL_THREADS: Final = 2
_STOP_SECONDS: Final = 15.0
_LOOPS: Final = 100_000


class BenchError(RuntimeError):
    """A benchmark cannot run or go on; the text is one line for a person."""


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all its threads, user and system. Raises OSError when it is gone.

    By its clock (clock_getcpuclockid(3)), which counts nanoseconds; /proc has steps of 10 ms, which are 5 us for each
    request of a window of 2,000.
    """
    return time.clock_gettime((~pid << _PID_SHIFT) | _ALL_THREADS)


def core_seconds(core: int) -> float:
    """Time that a core was not idle, whoever used it (on a virtual machine other machines too)."""
    found = re.search(rf"^cpu{core} (.+)", Path("/proc/stat").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"there is no core {core}")
    user, nice, system, _idle, _iowait, *more = map(int, found[1].split())
    interrupts_and_steal = more[:3]
    return (user + nice + system + sum(interrupts_and_steal)) / _TICKS


def loop_us(core: int) -> float:
    """CPU time of a fixed loop, in microseconds, as a core is now.

    Where something else shares the core's hardware, such as another virtual machine on its other thread, it takes up to
    twice as long, and so does everything: no counter of this machine tells of that.
    """
    with on_core(core):
        began = time.thread_time_ns()
        counts: dict[int, int] = {}
        for number in range(_LOOPS):
            counts[number & 255] = number
        return (time.thread_time_ns() - began) / 1e3


def memory_mb(pid: int) -> tuple[float, float]:
    """A process's resident memory now, and its peak, in MB (10^6 bytes). Raises OSError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, peak = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
    if now is None or peak is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(now[1]) * 1024 / 1e6, int(peak[1]) * 1024 / 1e6


def process_tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        for task in _entries(Path(f"/proc/{current}/task")):
            with contextlib.suppress(OSError):
                todo += [int(child) for child in (task / "children").read_text().split()]
    return found


def command_line(pid: int) -> list[str]:
    """A process's arguments; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def require_linux() -> None:
    """Raises BenchError where there is no /proc and no core to pin to."""
    if sys.platform != "linux":
        raise BenchError("measuring a gateway's CPU needs Linux: it reads /proc and pins processes to cores")


def choose_cores() -> tuple[int, int]:
    """The gateway's core and the load's: two different ones, where this process may use two."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """Keep this process on one core for a while; what it starts meanwhile stays there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running(
    command: list[str],
    core: int,
    *,
    log: IO[bytes] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process on a core, out of reach of this terminal's Ctrl-C; on leaving it is ended, at first kindly."""
    with on_core(core):
        process = subprocess.Popen(
            command, stdin=stdin, stdout=log if stdout is None else stdout, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process by its id and collect it; what it had started and left behind is ended as well."""
    descendants = process_tree(process.pid)[1:] if process.poll() is None else []
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except BaseException as reason:  # it takes too long, also for the person who presses Ctrl-C again
        process.kill()
        process.wait()
        for pid in descendants:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not isinstance(reason, subprocess.TimeoutExpired):
            raise
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
