from pathlib import Path

import pytest

from gateway.rollouts.split_note import NOTE_FILE, SplitNote
from routing.rollouts.split import Split

SPLIT = Split(model="m", stable="v2", candidate="v3", share=0.5, configured="v1", epoch=3)
STABLE = Split(model="m", stable="v2", configured="v1")


def test_what_is_noted_is_read_again_and_written_when_it_changes_alone(tmp_path: Path) -> None:
    note = SplitNote(tmp_path)
    assert note.read() == {}
    note.write({"m": SPLIT, "n": None})
    assert SplitNote(tmp_path).read() == {"m": STABLE, "n": None}
    written = (tmp_path / NOTE_FILE).stat().st_mtime_ns
    for other in (note, SplitNote(tmp_path)):
        other.write({"n": None, "m": STABLE})
    assert (tmp_path / NOTE_FILE).stat().st_mtime_ns == written
    note.write({"m": None})
    assert SplitNote(tmp_path).read() == {"m": None}
    assert [path.name for path in tmp_path.iterdir()] == [NOTE_FILE]


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"m": {"stable": 3}}', b"\xff"])
def test_what_is_damaged_is_no_note(tmp_path: Path, damaged: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NOTE_FILE).write_bytes(damaged)
    note = SplitNote(tmp_path)
    assert note.read() == {}
    assert "cannot be read" in caplog.text
    note.write({"m": SPLIT})
    assert note.read() == {"m": STABLE}


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note = SplitNote(tmp_path / "missing")
    for _ in range(2):
        note.write({"m": SPLIT})
    assert caplog.text.count("cannot be written") == 1
