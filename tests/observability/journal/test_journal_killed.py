"""What was acknowledged is there, however the process ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from observability.journal.signer import read_key
from tests.observability.journal import journalling_process
from tests.observability.journal.journalling_process import RECORDS
from tests.observability.journal.journals import checked, ids

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def killed(folder: Path, first: int, at: int) -> int:
    """How many records a process said were durable, when it was killed after it had said so of `at` of them."""
    command = [sys.executable, journalling_process.__file__, str(folder), str(first)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        said = 0
        for line in process.stdout:
            said = int(line)
            if said >= at:
                process.kill()
        return said


@pytest.mark.parametrize("seed", range(2))
def test_no_acknowledged_record_is_lost_when_the_process_is_killed(tmp_path: Path, seed: int) -> None:
    first, expected = 0, set[str]()
    for at in (1, 3000 + 977 * seed, 12_000 + 501 * seed, RECORDS):
        acknowledged = killed(tmp_path, first, at)
        assert acknowledged >= at
        expected |= {f"req_{first + number}" for number in range(acknowledged)}
        first += RECORDS
    found = ids(tmp_path / "journal")
    assert len(set(found)) == len(found)
    assert expected <= set(found)
    assert sorted(found, key=lambda name: int(name[4:])) == found
    report = checked(tmp_path / "journal", read_key(tmp_path / "key"))
    assert (report.problems, report.chains, report.lost) == ([], 1, 0)
