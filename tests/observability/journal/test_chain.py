"""How a chain goes on, whatever ended the process before."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.journal.chain import ChainReplaced
from observability.journal.signer import Signer
from tests.observability.journal.journals import (
    Clock,
    append,
    chain_of,
    checked,
    events,
    files,
    ids,
    lines_of,
    problems,
    scanned,
    written,
)


def test_sealed_segments_are_read_only_and_have_another_name(tmp_path: Path) -> None:
    clock = Clock()
    chain = chain_of(tmp_path / "worker-0", clock=clock)
    append(chain, 0)
    clock.now += 60
    assert chain.age == 60
    chain.seal()
    assert chain.age == 0
    append(chain, 9)
    assert chain.age == 0
    chain.seal()
    chain.seal()
    chain.close()
    assert [path.name[16:] for path in files(tmp_path)] == ["-00000001.ndjson.zst", "-00000002.ndjson.zst"]
    assert [path.stat().st_mode & 0o777 for path in files(tmp_path)] == [0o400, 0o400]
    assert problems(tmp_path) == []


@given(st.integers(0, 3), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_torn_tail_is_cut_off_and_said(blocks: int, part: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, blocks=blocks + 1)
        path, head = files(folder)[0], folder / "worker-0" / "head"
        whole, acknowledged = path.read_bytes(), head.read_bytes()
        chain = chain_of(folder / "worker-0")
        append(chain, 100)
        chain.close()
        # The process was killed while it wrote the last block, so its head speaks of the one before.
        torn = path.read_bytes()[len(whole) : -1]
        path.write_bytes(whole + torn[: max(1, int(part * len(torn)))])
        head.write_bytes(acknowledged)
        chain = chain_of(folder / "worker-0")
        append(chain, 200)
        chain.close()
        assert ids(folder)[-4:] == [f"req_{blocks * 3 + 2}", "req_200", "req_201", "req_202"]
        assert events(folder) == ["opened", "repaired"]
        report = checked(folder)
        assert (report.problems, len(report.notes), len(files(folder))) == ([], 1, 1)


@pytest.mark.parametrize("sealed", [False, True])
def test_whole_blocks_behind_the_head_stay(tmp_path: Path, sealed: bool) -> None:
    """The process was killed before it wrote the head, or the head's last names were lost in a power cut."""
    written(tmp_path, blocks=1)
    head = (tmp_path / "worker-0" / "head").read_bytes()
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 3)
    if sealed:
        chain.seal()
    append(chain, 6)
    chain.close()
    (tmp_path / "worker-0" / "head").write_bytes(head)
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 9)
    chain.close()
    assert (len(ids(tmp_path)), events(tmp_path), problems(tmp_path)) == (12, ["opened"] * (1 + sealed), [])


def test_a_whole_block_that_does_not_follow_on_the_head_is_cut_off(tmp_path: Path) -> None:
    written(tmp_path, blocks=2)
    path = files(tmp_path)[0]
    content, second = path.read_bytes(), scanned(path)[1]
    path.write_bytes(content + content[second.offset :])
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 6)
    chain.close()
    assert ids(tmp_path) == [f"req_{number}" for number in range(9)]
    assert (events(tmp_path), problems(tmp_path)) == (["opened", "repaired"], [])


def test_a_chain_that_was_killed_before_its_first_block(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "worker-0")
    chain._ready()
    chain.close()
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    chain.close()
    assert (events(tmp_path), problems(tmp_path)) == (["opened"], [])


@pytest.mark.parametrize("call", ["rename", "chmod"])
def test_a_seal_that_fails_is_finished_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    with monkeypatch.context() as patch:
        patch.setattr(Path, call, failing)
        with pytest.raises(OSError):
            chain.seal()
    chain.seal()
    append(chain, 3)
    chain.close()
    assert [".open" in path.name for path in files(tmp_path)] == [False, True]
    assert (problems(tmp_path), len(ids(tmp_path))) == ([], 6)


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "no head", "head of nobody"])
def test_what_was_acknowledged_and_is_not_there_is_said_for_good(tmp_path: Path, damage: str) -> None:
    written(tmp_path)
    path, head = files(tmp_path)[0], tmp_path / "worker-0" / "head"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-200])
    elif damage == "flip":
        path.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    elif damage == "gone":
        path.unlink()
    elif damage == "no head":
        head.unlink()
    else:
        head.write_bytes(b"x" * 512)
    spoilt = path.read_bytes() if path.exists() else b""
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 100)
    chain.seal()
    chain.close()
    assert problems(tmp_path) != []
    # What has been changed and is there can still be looked at; what is missing cannot.
    assert said(tmp_path) == ([] if damage == "flip" else ["missing"])
    # What was there stays as it was.
    assert damage == "gone" or spoilt in files(tmp_path)[0].read_bytes()


def said(folder: Path) -> list[str]:
    return [finding.problem.split(": ")[1] for finding in checked(folder).problems if ": " in finding.problem]


def test_a_key_that_was_changed_is_said(tmp_path: Path) -> None:
    written(tmp_path)
    chain = chain_of(tmp_path / "worker-0", Signer(b"another"))
    append(chain, 100)
    chain.close()
    assert len(ids(tmp_path)) == 15
    assert any("another key" in problem for problem in problems(tmp_path))


def failing(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["write", "fsync", "head"])
def test_a_block_that_could_not_be_written_is_not_there_and_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    before = chain.position
    with monkeypatch.context() as patch:
        if call == "write":
            real = os.pwrite

            def some(descriptor: int, data: memoryview, offset: int) -> int:
                if offset != before.offset:
                    failing()
                return real(descriptor, data[:50], offset)

            patch.setattr(os, "pwrite", some)
        elif call == "head":
            patch.setattr(Path, "replace", failing)
        else:
            patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="No space"):
            append(chain, 3)
    assert chain.position == before
    assert problems(tmp_path) == []
    append(chain, 3)
    chain.seal()
    chain.close()
    assert (ids(tmp_path), problems(tmp_path)) == ([f"req_{number}" for number in range(6)], [])
    assert checked(tmp_path).notes == []


def test_a_seal_cuts_off_what_a_failed_write_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError):
            append(chain, 3)
    chain.seal()
    chain.close()
    assert (ids(tmp_path), problems(tmp_path), checked(tmp_path).notes) == (["req_0", "req_1", "req_2"], [], [])


@pytest.mark.parametrize("action", ["append", "seal"])
def test_whoever_removes_the_segment_meanwhile_is_noticed(tmp_path: Path, action: str) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    files(tmp_path)[0].unlink()
    with pytest.raises(ChainReplaced):
        append(chain, 3) if action == "append" else chain.seal()
    chain.close()
    again = chain_of(tmp_path / "worker-0", known=chain.position)
    append(again, 3)
    again.close()
    assert (events(tmp_path), len(ids(tmp_path))) == (["opened", "missing"], 3)
    assert "segments 1 to 1 before it are missing" in problems(tmp_path)


def test_the_head_is_there_before_the_first_block(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "worker-0")
    assert [path.name for path in (tmp_path / "worker-0").iterdir()] == ["head"]
    assert (problems(tmp_path), checked(tmp_path).chains) == ([], 1)
    append(chain, 0)
    chain.close()
    files(tmp_path)[0].unlink()
    assert problems(tmp_path) == ["the end is cut: blocks 1 to 1 are missing"]


def test_a_head_that_is_gone_is_made_anew_by_the_next_block(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    (tmp_path / "worker-0" / "head").unlink()
    append(chain, 3)
    chain.close()
    assert problems(tmp_path) == []
    os.truncate(files(tmp_path)[0], files(tmp_path)[0].stat().st_size - 1)
    assert len(problems(tmp_path)) == 1


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_what_was_removed_by_hand_is_said_when_what_is_behind_it_is_removed(tmp_path: Path, gone: int) -> None:
    chain = chain_of(tmp_path / "worker-0")
    for number in range(5):
        append(chain, number)
        chain.seal()
    chain.remove(chain.sealed()[:0], "older than is kept")
    files(tmp_path)[gone - 1].unlink()
    chain.remove(chain.sealed()[:3], "older than is kept")
    chain.close()
    said = [line["detail"] for line in lines_of(tmp_path) if line.get("event") == "damaged"]
    assert f"segments {gone} to {gone} before it are missing" in said[0]
    assert problems(tmp_path) != []


@pytest.mark.parametrize("damage", ["flip", "cut", "exchanged"])
def test_a_segment_that_is_not_whole_is_said_when_it_is_removed(tmp_path: Path, damage: str) -> None:
    chain = chain_of(tmp_path / "worker-0")
    for number in range(4):
        append(chain, number)
        append(chain, number)
        chain.seal()
    path, content = files(tmp_path)[1], files(tmp_path)[1].read_bytes()
    path.chmod(0o600)
    if damage == "flip":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(content[: scanned(path)[-1].offset])
    else:
        path.write_bytes(files(tmp_path)[2].read_bytes())
    chain.remove(chain.sealed()[:2], "older than is kept")
    assert problems(tmp_path) != []
    # That the end of a segment is cut is seen where the next one begins, and said when that is removed.
    chain.remove(chain.sealed()[: damage == "cut"], "older than is kept")
    chain.close()
    said = [line["detail"] for line in lines_of(tmp_path) if line.get("event") == "damaged"]
    assert said[0].startswith(f"segment {3 if damage == 'cut' else 2}, when it was removed: ")
    assert problems(tmp_path) != []


def test_a_removal_that_could_not_be_said_is_said_when_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_of(tmp_path / "worker-0")
    for number in range(3):
        append(chain, number)
        chain.seal()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError):
            chain.remove(chain.sealed()[:2], "older than is kept")
    assert len(files(tmp_path)) == 4
    chain.remove(chain.sealed()[:2], "older than is kept")
    chain.close()
    assert (events(tmp_path).count("removed"), problems(tmp_path)) == (1, [])


@pytest.mark.parametrize("head", ["older", "gone", "as it was"])
def test_a_cut_below_a_running_process_is_said_whatever_the_head_says(tmp_path: Path, head: str) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    older, size = (tmp_path / "worker-0" / "head").read_bytes(), chain.position.offset
    append(chain, 3)
    append(chain, 6)
    os.truncate(files(tmp_path)[0], size)
    if head == "older":
        (tmp_path / "worker-0" / "head").write_bytes(older)
    elif head == "gone":
        (tmp_path / "worker-0" / "head").unlink()
    with pytest.raises(ChainReplaced):
        append(chain, 9)
    chain.close()
    again = chain_of(tmp_path / "worker-0", known=chain.position)
    append(again, 9)
    again.close()
    assert "missing" in events(tmp_path)
    assert problems(tmp_path) != []
