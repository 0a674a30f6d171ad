import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_reader_that_has_enough_is_no_defect() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli.main", "schema"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.communicate()[1] == b""
    assert command.returncode == 141
