"""Counts a worker's instructions, cache misses and allocations by callgrind.

Allocations are the calls of CPython's allocator for objects and memory blocks, and of the C library's `malloc` by all
others. What comes from the interpreter's free lists (small tuples, floats, frames) is no call and does not count.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from loadtest.load.processes import BenchError

INSTRUCTIONS: Final = "instructions"
MISSES: Final = "last-level misses"
ALLOCATIONS: Final = "Python allocations"
MALLOCS: Final = "C allocations"
#: Callgrind's simulated caches: the same on every machine.
_CACHES: Final = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=33554432,16,64"]
_EVENTS: Final = {INSTRUCTIONS: ("Ir",), MISSES: ("ILmr", "DLmr", "DLmw")}
_FUNCTIONS: Final = {
    ALLOCATIONS: ("_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc"),
    MALLOCS: ("malloc", "calloc", "realloc"),
}
_CONTROL_SECONDS: Final = 60.0
_OUT: Final = "callgrind.out"


def missing() -> str | None:
    """Return what is not counted here and why, if something is not."""
    if shutil.which("valgrind") and shutil.which("callgrind_control"):
        return None
    return "instructions, last-level misses, allocations: there is no `valgrind`"


def valgrind_command(folder: Path) -> list[str]:
    """Return a `penstock` whose workers run under callgrind; nothing is counted until it is told to."""
    program = folder / "worker"
    out = folder / f"{_OUT}.%p"
    options = ["--tool=callgrind", "--instr-atstart=no", *_CACHES, f"--callgrind-out-file={out}"]
    program.write_text(f'#!/bin/sh\nexec valgrind {shlex.join(options)} {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o700)
    return [sys.executable, "-P", "-m", "loadtest.cost.wrapped_serve", str(program)]


def start_counting(pid: int) -> None:
    """Make callgrind count from now on; the worker is 50 times slower then. Raises BenchError."""
    _control("-i", "on", str(pid))


def instruction_counter(pid: int, folder: Path) -> Callable[[Callable[[], None]], Mapping[str, float]]:
    """Return a function that does some work, and counts what the worker executes meanwhile."""
    out = f"{_OUT}.{pid}"

    def count(work: Callable[[], None]) -> Mapping[str, float]:
        _control("-z", str(pid))
        work()
        _control("-d", str(pid))
        newest = max(folder.glob(f"{out}.*"), key=lambda path: int(path.suffix[1:]), default=None)
        if newest is None:
            raise BenchError("callgrind wrote no profile")
        with newest.open() as lines:
            counts = profile_counts(lines)
        newest.unlink()
        return counts

    return count


def _control(*options: str) -> None:
    try:
        done = subprocess.run(
            ["callgrind_control", *options], capture_output=True, text=True, timeout=_CONTROL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"callgrind_control {options[0]} does not end") from None
    if done.returncode or "OK" not in done.stdout:
        raise BenchError(f"callgrind_control {options[0]} failed: {(done.stderr or done.stdout).strip()}")


def profile_counts(lines: Iterator[str]) -> dict[str, float]:
    """Read a profile of callgrind (its format: the manual's section 6.6).

    Function names are written once, with a number that stands for them from then on: `cfn=(7) malloc`, `cfn=(7)`. A
    `calls=` line tells how often the function of the last `cfn=` was called from where it stands.
    """
    wanted = {name: kind for kind, names in _FUNCTIONS.items() for name in names}
    numbers: dict[str, str] = {}
    counts = dict.fromkeys((*_EVENTS, *_FUNCTIONS), 0.0)
    events: list[str] = []
    called: str | None = None
    for line in lines:
        if line.startswith(("fn=", "cfn=")):
            number, _, name = line.partition("=")[2].rstrip().partition(" ")
            if name in wanted:
                numbers[number] = wanted[name]
            called = numbers.get(number) if line.startswith("cfn=") else called
        elif line.startswith("calls="):
            if called is not None:
                counts[called] += int(line[len("calls=") :].split()[0])
                called = None
        elif line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("summary:"):
            values = dict(zip(events, map(int, line.split()[1:]), strict=True))
            for kind, names in _EVENTS.items():
                counts[kind] = float(sum(values[name] for name in names))
    if not events:
        raise BenchError("callgrind's profile has no events")
    return counts
