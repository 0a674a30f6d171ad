"""A secret is made once, whoever comes first."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from observability.secret_file import create_once


def test_one_of_many_wins_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: create_once(path, b"%d" % number), range(8)))
    first = path.read_bytes()
    assert first in {b"%d" % number for number in range(8)}
    create_once(path, b"late")
    assert path.read_bytes() == first
    assert [each.name for each in path.parent.iterdir()] == ["secret"]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_where_it_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|exists"):
        create_once(tmp_path / "file" / "secret", b"x")
