"""Whatever is changed in a journal is found."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.journal.block import Block
from observability.journal.folder import take_folder
from observability.journal.signer import Signer
from tests.observability.journal.journals import append, chain_of, checked, files, problems, scanned, written

SEGMENTS = 3


@pytest.fixture(scope="module")
def original() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        written(Path(name), segments_=SEGMENTS)
        yield Path(name)


class Copy:
    """A journal to be spoilt; `files` are its segments, the last one open."""

    def __init__(self, original: Path, folder: str) -> None:
        self.folder = Path(folder) / "copy"
        shutil.copytree(original, self.folder)
        self.files = files(self.folder)
        for path in self.files:
            path.chmod(0o600)

    def blocks(self, place: int) -> list[bytes]:
        data = self.files[place].read_bytes()
        found = [item for item in scanned(self.files[place]) if isinstance(item, Block)]
        return [data[block.offset : block.end] for block in found]


@pytest.fixture
def copy(original: Path) -> Iterator[Copy]:
    with tempfile.TemporaryDirectory() as name:
        yield Copy(original, name)


def test_a_journal_as_it_was_written(original: Path) -> None:
    report = checked(original)
    assert (report.problems, report.notes) == ([], [])
    assert (report.chains, report.segments, report.blocks, report.keyed) == (1, SEGMENTS, 12, 12)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_changed_byte_is_found(original: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(original, name)
        path = copy.files[data.draw(st.integers(0, SEGMENTS - 1))]
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        found = checked(copy.folder).problems
        assert path in [finding.path for finding in found]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_cut_is_found(original: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(original, name)
        path = copy.files[data.draw(st.integers(0, SEGMENTS - 1))]
        content = path.read_bytes()
        start = data.draw(st.integers(0, len(content) - 1))
        end = data.draw(st.integers(start + 1, len(content)))
        path.write_bytes(content[:start] + content[end:])
        assert problems(copy.folder)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_other_order_of_blocks_is_found(original: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(original, name)
        blocks = [copy.blocks(place) for place in range(SEGMENTS)]
        places = st.tuples(st.integers(0, SEGMENTS - 1), st.integers(0, 3))
        (a, i), (b, j) = data.draw(st.tuples(places, places).filter(lambda pair: pair[0] != pair[1]))
        played = data.draw(st.booleans())
        if played:
            blocks[a].insert(i, blocks[b][j])
        else:
            blocks[a][i], blocks[b][j] = blocks[b][j], blocks[a][i]
        for path, parts in zip(copy.files, blocks, strict=True):
            path.write_bytes(b"".join(parts))
        assert problems(copy.folder)


@given(st.binary(min_size=1, max_size=64), st.integers(0, SEGMENTS - 1), st.booleans())
@settings(max_examples=40, deadline=None)
def test_bytes_put_in_are_found(original: Path, junk: bytes, place: int, behind: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(original, name)
        content = copy.files[place].read_bytes()
        copy.files[place].write_bytes(content + junk if behind else junk + content)
        report = checked(copy.folder)
        # What follows the last acknowledged block may be a torn tail.
        assert report.notes if behind and place == SEGMENTS - 1 else report.problems


@pytest.mark.parametrize("place", range(SEGMENTS))
def test_a_missing_segment_is_named(copy: Copy, place: int) -> None:
    copy.files[place].unlink()
    said = " ".join(problems(copy.folder))
    assert (
        f"segments {place + 1} to {place + 1} before it are missing" in said or "the end is cut: blocks 9 to 12" in said
    )


def test_a_tail_cut_between_blocks_is_found(copy: Copy) -> None:
    copy.files[-1].write_bytes(b"".join(copy.blocks(2)[:-1]))
    assert problems(copy.folder) == ["the end is cut: blocks 12 to 12 are missing"]


def test_segments_that_change_places_are_found(copy: Copy) -> None:
    first, second = (path.read_bytes() for path in copy.files[:2])
    copy.files[0].write_bytes(second)
    copy.files[1].write_bytes(first)
    assert any("belongs to segment 2" in problem for problem in problems(copy.folder))


def test_a_segment_of_another_chain_is_found(copy: Copy, tmp_path: Path) -> None:
    written(tmp_path, segments_=SEGMENTS)
    copy.files[0].write_bytes(files(tmp_path)[0].read_bytes())
    assert any("belongs to segment 1 of chain" in problem for problem in problems(copy.folder))


def test_a_head_that_is_gone_or_older_or_another_ones_is_found(copy: Copy, tmp_path: Path) -> None:
    head = copy.folder / "worker-0" / "head"
    content = head.read_bytes()
    head.unlink()
    assert problems(copy.folder) == ["is missing: whether the end is cut cannot be told"]
    head.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert problems(copy.folder) == [
        "was not made with this key, or was changed: whether the end is cut cannot be told"
    ]
    written(tmp_path, segments_=SEGMENTS, signer=Signer())
    head.write_bytes((tmp_path / "worker-0" / "head").read_bytes())
    assert problems(copy.folder)


@given(st.integers(1, 5), st.data())
@settings(max_examples=40, deadline=None)
def test_nothing_done_to_the_head_hides_a_cut(blocks: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, blocks=blocks)
        path, head = files(folder)[0], folder / "worker-0" / "head"
        content = bytearray(head.read_bytes())
        os.truncate(path, scanned(path)[data.draw(st.integers(0, blocks - 1))].offset)
        made = data.draw(st.sampled_from(["as it was", "gone", "changed", "cut"]))
        if made == "gone":
            head.unlink()
        elif made == "changed":
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
            head.write_bytes(content)
        elif made == "cut":
            head.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        assert problems(folder)
        # What a starting process found is said for good.
        chain = chain_of(folder / "worker-0")
        chain.write_pending()
        append(chain, 100)
        append(chain, 103)
        chain.close()
        assert any("missing: " in problem for problem in problems(folder))


def test_a_folder_whose_files_are_gone_is_found(copy: Copy) -> None:
    for path in (copy.folder / "worker-0").iterdir():
        path.unlink()
    assert problems(copy.folder) == ["is missing: whether the end is cut cannot be told"]


def test_a_chain_that_was_put_into_the_folder_of_another_is_found(copy: Copy, tmp_path: Path) -> None:
    written(tmp_path, blocks=1)
    shutil.move(copy.files[0], tmp_path / "worker-0")
    assert any("of another chain than the head beside it names" in problem for problem in problems(tmp_path))


@pytest.mark.parametrize("taken", ["blocks", "head"])
def test_two_histories_of_one_chain_do_not_fit_together(tmp_path: Path, taken: str) -> None:
    """Both were written with the key: one went on from a copy that was put back."""
    one, other = tmp_path / "one", tmp_path / "other"
    written(one, blocks=2)
    shutil.copytree(one, other)
    for folder, first in ((one, 100), (other, 200)):
        chain = chain_of(folder / "worker-0")
        append(chain, first)
        append(chain, first + 3)
        chain.close()
    if taken == "head":
        shutil.copy(other / "worker-0" / "head", one / "worker-0" / "head")
        assert problems(one) == ["is not the block that the head names"]
        return
    mine, theirs = files(one)[0].read_bytes(), files(other)[0].read_bytes()
    files(one)[0].write_bytes(mine[: scanned(files(one)[0])[3].offset] + theirs[scanned(files(other)[0])[3].offset :])
    shutil.copy(other / "worker-0" / "head", one / "worker-0" / "head")
    assert problems(one) == ["does not follow from the block before it"]


@pytest.mark.parametrize("place", range(SEGMENTS))
@pytest.mark.parametrize("block", [0, 1, -1])
def test_a_damaged_block_is_one_problem(copy: Copy, place: int, block: int) -> None:
    blocks = copy.blocks(place)
    blocks[block] = blocks[block][:-1] + bytes([blocks[block][-1] ^ 1])
    copy.files[place].write_bytes(b"".join(blocks))
    found = checked(copy.folder).problems
    number = place * 4 + (block if block >= 0 else len(blocks) - 1) + 1
    assert [(each.problem, each.block) for each in found] == [("a block's lines are not what was written", number)]


def test_blocks_that_are_missing_behind_a_damage_are_said_too(copy: Copy) -> None:
    first, second, _, *others = copy.blocks(0)
    copy.files[0].write_bytes(b"".join([first, second[:-1], b"x", *others]))
    assert problems(copy.folder) == ["a block's lines are not what was written", "blocks 2 to 3 before it are missing"]


def test_a_chain_that_was_rebuilt_without_the_key_is_found(copy: Copy) -> None:
    for path in copy.files:
        path.unlink()
    (copy.folder / "worker-0" / "head").unlink()
    for signer in (Signer(), Signer(b"another")):
        shutil.rmtree(copy.folder)
        written(copy.folder, signer=signer)
        assert any("key" in problem for problem in problems(copy.folder))
        assert problems(copy.folder, None) == [] or signer.key_id != Signer().key_id


def test_a_keyed_chain_needs_its_key(original: Path) -> None:
    assert any("another key" in problem for problem in problems(original, None))


def test_a_torn_tail_is_no_problem_and_what_is_being_written_is_nothing(copy: Copy) -> None:
    with copy.files[-1].open("ab") as file:
        file.write(copy.blocks(2)[0][:100])
    report = checked(copy.folder)
    assert (report.problems, [note.problem[:21] for note in report.notes]) == ([], ["a torn tail of 100 byt"[:21]])
    lock = take_folder(copy.folder / "worker-0")
    assert lock is not None
    try:
        assert (checked(copy.folder).problems, checked(copy.folder).notes) == ([], [])
    finally:
        os.close(lock)


def test_segments_that_were_removed_by_age_are_not_missed(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "worker-0")
    for place in range(4):
        append(chain, place)
        chain.seal()
    chain.remove(chain.sealed()[:2], "older than is kept")
    report = checked(tmp_path)
    assert report.problems == []
    assert [note.problem[21:] for note in report.notes] == ["removed: segments 1 to 2: older than is kept"]
    # Then even the segment goes that says so.
    chain.seal()
    append(chain, 9)
    chain.remove(chain.sealed()[:3], "more bytes than are kept")
    chain.close()
    assert (problems(tmp_path), len(files(tmp_path))) == ([], 1)
    # One that nobody removed by the rules is missed still.
    chain = chain_of(tmp_path / "worker-0")
    chain.seal()
    append(chain, 10)
    chain.close()
    files(tmp_path)[0].unlink()
    assert problems(tmp_path) != []


def test_a_removal_that_was_interrupted_is_no_problem(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "worker-0")
    for place in range(4):
        append(chain, place)
        chain.seal()
    saved = {path: path.read_bytes() for path in files(tmp_path)[1:3]}
    chain.remove(chain.sealed()[:3], "older than is kept")
    chain.close()
    for path, content in saved.items():
        path.write_bytes(content)
    assert problems(tmp_path) == []
