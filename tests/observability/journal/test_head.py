"""How far a chain was acknowledged."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from observability.journal.head import Head, read_head, write_head
from observability.journal.signer import Signer
from tests.observability.journal.journals import KEYED, append, chain_of, checked, events, files, ids, problems

#: Journals that the version before this one wrote: a chain of two segments, and one whose first two were removed.
EARLIER = Path(__file__).parent / "earlier_version"
OLD_RECORD = 256


def head_of(sequence: int = 3) -> Head:
    return Head(b"c" * 8, 1, 100, sequence, b"l" * 32)


def test_the_head_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    assert read_head(tmp_path, KEYED) is None
    write_head(tmp_path, head_of(3), KEYED)
    for owner, call in ((os, "fsync"), (os, "open"), (Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, call, fail)
            with pytest.raises(OSError):
                write_head(tmp_path, head_of(4), KEYED)
        assert read_head(tmp_path, KEYED) == head_of(3)
    write_head(tmp_path, head_of(4), KEYED)
    assert read_head(tmp_path, KEYED) == head_of(4)
    assert [path.name for path in tmp_path.iterdir()] == ["head"]


@pytest.mark.parametrize("signer", [Signer(), Signer(b"another")])
def test_the_head_of_another_key_cannot_be_used(tmp_path: Path, signer: Signer) -> None:
    write_head(tmp_path, head_of(), signer)
    with pytest.raises(ValueError, match="not made with this key"):
        read_head(tmp_path, KEYED)


@pytest.fixture(params=["written", "removed"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(EARLIER / request.param, tmp_path / "journal")
    return tmp_path / "journal"


def test_a_journal_of_the_version_before_is_verified_and_goes_on(earlier: Path) -> None:
    assert problems(earlier) == []
    before = len(ids(earlier))
    chain = chain_of(earlier / "worker-0")
    append(chain, 1000)
    chain.close()
    report = checked(earlier)
    assert (report.problems, report.chains, len(ids(earlier))) == ([], 1, before + 3)
    assert {"repaired", "missing", "damaged"}.isdisjoint(events(earlier))
    last = files(earlier)[-1]
    os.truncate(last, last.stat().st_size - 1)
    assert len(problems(earlier)) == 1


@pytest.mark.parametrize("change", ["first blank", "second blank", "first twice", "second twice"])
def test_a_cut_of_a_journal_of_the_version_before_is_found(earlier: Path, change: str) -> None:
    head = earlier / "worker-0" / "head"
    first, second = head.read_bytes()[:OLD_RECORD], head.read_bytes()[OLD_RECORD:]
    made = {
        "first blank": bytes(OLD_RECORD) + second,
        "second blank": first + bytes(OLD_RECORD),
        "first twice": first + first,
        "second twice": second + second,
    }
    head.write_bytes(made[change])
    assert "whether the end is cut cannot be told" in problems(earlier)[0]
