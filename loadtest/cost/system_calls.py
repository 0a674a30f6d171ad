"""Counts a worker's system calls by strace."""

import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from loadtest.load.processes import BenchError

SYSTEM_CALLS: Final = "system calls"
_ATTACH_SECONDS: Final = 15.0
#: A row of `strace -c`: % time, seconds, usecs/call, calls, errors (may be missing), the call's name.
_ROW: Final = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)
_TOTAL: Final = "total"


def missing() -> str | None:
    """Return what is not counted here and why, if something is not."""
    return None if shutil.which("strace") else "system calls: there is no `strace`"


def system_call_counter(pid: int) -> Callable[[Callable[[], None]], Mapping[str, float]]:
    """Return a function that does some work, and counts the system calls of a process and its threads meanwhile."""

    def count(work: Callable[[], None]) -> Mapping[str, float]:
        with tempfile.TemporaryDirectory(prefix="penstock-strace-") as folder:
            table = Path(folder, "calls")
            command = ["strace", "-f", "-c", "-o", str(table), "-p", str(pid)]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as strace:
                try:
                    _wait_until_attached(strace)
                    work()
                finally:
                    if strace.poll() is None:
                        strace.send_signal(signal.SIGINT)
                strace.wait(_ATTACH_SECONDS)
            return system_calls(table.read_text())

    return count


def _wait_until_attached(strace: "subprocess.Popen[str]") -> None:
    """Wait until strace says that it has attached. Raises BenchError."""
    assert strace.stderr is not None
    late = threading.Timer(_ATTACH_SECONDS, strace.kill)
    late.start()
    try:
        said = strace.stderr.readline()
    finally:
        late.cancel()
    if "attached" not in said:
        raise BenchError(f"strace cannot attach to the worker: {said.strip() or 'it said nothing'}")


def system_calls(table: str) -> dict[str, float]:
    """Read the table of `strace -c`: calls by name, and their sum."""
    calls = {f"system call {name}": float(count) for count, name in _ROW.findall(table) if name != _TOTAL}
    return {SYSTEM_CALLS: sum(calls.values()), **calls}
