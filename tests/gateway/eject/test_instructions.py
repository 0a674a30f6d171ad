"""What is to be done with what was ejected: commands that a shell takes as they are meant."""

import shlex
from pathlib import Path

from gateway.eject.instructions import instructions
from gateway.eject.values import EjectOptions
from tests.gateway.eject.ejecting import MODEL, ejected


def test_paths_are_quoted_for_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "it's mine; $HOME"
    folder.mkdir()
    (folder / "t.txt").write_text("x\n")
    filters = [{"name": "a", "terms": {"file": "t.txt"}}]
    found = ejected(folder, MODEL, safety={"input": ["a"], "filters": filters})
    page = instructions(found, EjectOptions(), "here", "true")
    line = next(line for line in page.splitlines() if "--from-file" in line)
    assert shlex.split(line)[-1] == f"--from-file=t.txt={folder / 't.txt'}"
