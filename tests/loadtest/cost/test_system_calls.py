import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.cost.system_calls import SYSTEM_CALLS, missing, system_call_counter, system_calls
from loadtest.load.processes import BenchError

_TABLE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.20    0.000060           1        41         3 futex
 38.80    0.000038           0       120           epoll_wait
  0.00    0.000000           0         2           getpid
------ ----------- ----------- --------- --------- ----------------
100.00    0.000098           0       163         3 total
"""


def test_a_table_is_read_with_errors_and_without() -> None:
    calls = system_calls(_TABLE)
    assert calls == {
        SYSTEM_CALLS: 163,
        "system call futex": 41,
        "system call epoll_wait": 120,
        "system call getpid": 2,
    }


def test_a_process_that_did_nothing_has_no_calls() -> None:
    assert system_calls("") == {SYSTEM_CALLS: 0}


def test_without_strace_it_is_said_what_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == "system calls: there is no `strace`"


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_calls_of_a_process_are_counted() -> None:
    script = "import os, sys\nfor line in sys.stdin:\n [os.getppid() for _ in range(100)]\n print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None

        # The read that is under way at first and the write at whose end the count stops may be missing.
        def work() -> None:
            assert process.stdin is not None and process.stdout is not None
            for _ in range(2):
                process.stdin.write(b"\n")
                process.stdin.flush()
                process.stdout.readline()

        work()
        try:
            counts = system_call_counter(process.pid)(work)
        except BenchError as error:
            pytest.skip(f"this machine does not let processes be traced: {error}")
        finally:
            process.stdin.close()
    assert counts["system call getppid"] == 200
    assert 200 < counts[SYSTEM_CALLS] < 220


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_process_that_is_gone_is_an_error() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(BenchError, match="strace cannot attach"):
        system_call_counter(gone.pid)(lambda: None)
