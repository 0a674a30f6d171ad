from pathlib import Path

import pytest

from loadtest.cost.instructions import (
    ALLOCATIONS,
    INSTRUCTIONS,
    MALLOCS,
    MISSES,
    missing,
    profile_counts,
    start_counting,
)
from loadtest.load.processes import BenchError

_PROFILE = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 2828
positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 42119935 12687445 7467138 1201379 702316 221399 95 265 896

ob=(2) /usr/lib/libpython3.11.so.1.0
fl=(1) obmalloc.c
fn=(7) _PyObject_Malloc
12 100 50 20 0 0 0 0 0 0
cob=(3) /usr/lib/libc.so.6
cfi=(9) malloc.c
cfn=(8) malloc
calls=3 3200
14 30 5 5

fn=(12) PyDict_New
20 5
cfn=(7)
calls=40 +5
21 400 50 20
cfn=(13) list_dealloc
calls=1000 +5
21 400 50 20
cfn=(14) _PyObject_Realloc'2
calls=2000 +5
21 400 50 20
jump=3 22
cfn=(8)
calls=2 3200
22 20
"""


def test_a_profile_tells_instructions_misses_and_who_was_called() -> None:
    counts = profile_counts(iter(_PROFILE.splitlines(keepends=True)))
    assert counts == {INSTRUCTIONS: 42119935, MISSES: 95 + 265 + 896, ALLOCATIONS: 40, MALLOCS: 5}


def test_a_profile_without_events_is_an_error() -> None:
    with pytest.raises(BenchError, match="no events"):
        profile_counts(iter(["# callgrind format\n"]))


def test_without_valgrind_it_is_said_what_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == "instructions, last-level misses, allocations: there is no `valgrind`"


def test_a_worker_that_is_not_under_callgrind_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    control = tmp_path / "callgrind_control"
    control.write_text("#!/bin/sh\necho 'Error: Callgrind task with PID/Name 1 not detected.'\n")
    control.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(BenchError, match="callgrind_control -i failed: Error: Callgrind task"):
        start_counting(1)
