import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from gateway.cli.main import main

ROOT = Path(__file__).parents[3]


def test_a_reader_that_has_enough_is_no_defect() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli.main", "schema"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.communicate()[1] == b""
    assert command.returncode == 141


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"penstock {version('penstock')}\n"
