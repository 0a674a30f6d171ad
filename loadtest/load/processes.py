"""Runs a benchmark's processes: starts them on a core, reads their use from /proc, ends them by id. Linux only."""

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
#: Linux's conversion of a process id to its CPU clock id.
_PID_SHIFT: Final = 3
_ALL_THREADS: Final = 2
_STOP_SECONDS: Final = 15.0
_LOOPS: Final = 100_000


class BenchError(RuntimeError):
    """A benchmark cannot run or continue; the text is one line for the user."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, all threads, user and system. Raises OSError when it is gone.

    It reads the process's clock (clock_getcpuclockid(3)) in nanoseconds; /proc has steps of 10 ms, 5 us per request of
    a window of 2,000.
    """
    return time.clock_gettime((~pid << _PID_SHIFT) | _ALL_THREADS)


def core_seconds(core: int) -> float:
    """Return the busy seconds of a core over all users (on a virtual machine other machines too)."""
    found = re.search(rf"^cpu{core} (.+)", Path("/proc/stat").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"there is no core {core}")
    user, nice, system, _idle, _iowait, *more = map(int, found[1].split())
    interrupts_and_steal = more[:3]
    return (user + nice + system + sum(interrupts_and_steal)) / _TICKS


def loop_us(core: int) -> float:
    """Return the CPU microseconds of a fixed loop on a core now.

    Where something else shares the core's hardware, such as another virtual machine on its other thread, everything
    takes up to twice as long, which no counter of this machine shows.
    """
    with on_core(core):
        began = time.thread_time_ns()
        counts: dict[int, int] = {}
        for number in range(_LOOPS):
            counts[number & 255] = number
        return (time.thread_time_ns() - began) / 1e3


def memory_mb(pid: int) -> tuple[float, float]:
    """Return a process's current and peak resident memory in MB (10^6 bytes). Raises OSError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, peak = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
    if now is None or peak is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(now[1]) * 1024 / 1e6, int(peak[1]) * 1024 / 1e6


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        for task in _entries(Path(f"/proc/{current}/task")):
            with contextlib.suppress(OSError):
                todo += [int(child) for child in (task / "children").read_text().split()]
    return found


def command_line(pid: int) -> list[str]:
    """Return a process's arguments; empty when it is gone."""
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
    """Raise BenchError unless there is /proc and CPU affinity."""
    if sys.platform != "linux":
        raise BenchError("measuring a gateway's CPU needs Linux: it reads /proc and pins processes to cores")


def choose_cores() -> tuple[int, int]:
    """Return the gateway's core and the load's: different ones, where this process may use two."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


@contextlib.contextmanager
def on_core(*cores: int) -> Iterator[None]:
    """Pin this process to one core, or to these, in the block; processes started in it stay there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running(
    command: list[str],
    *cores: int,
    log: IO[bytes] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process on these cores, shielded from this terminal's Ctrl-C; end it on leaving, first by SIGTERM."""
    with on_core(*cores):
        process = subprocess.Popen(
            command, stdin=stdin, stdout=log if stdout is None else stdout, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process by its id and reap it; end the descendants that it left behind as well."""
    descendants = process_tree(process.pid)[1:] if process.poll() is None else []
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except BaseException as reason:  # a timeout, or a second Ctrl-C
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
