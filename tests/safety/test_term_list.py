"""Files of terms: what is read of them, and what is refused at once."""

import os
import resource
from pathlib import Path

import pytest

from safety.term_list import TermListError, read_terms


def listed(tmp_path: Path, content: bytes) -> list[str]:
    path = tmp_path / "terms.txt"
    path.write_bytes(content)
    return read_terms(path)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_any_way(tmp_path: Path, end: bytes) -> None:
    lines = ["\ufeff# words", "one", "", "  zwei Wörter ", "#", "x" * 63, "a\u2028b\x0bc", "end"]
    content = end.join(line.encode() for line in lines)
    assert listed(tmp_path, content) == ["one", "zwei Wörter", "x" * 63, "a\u2028b\x0bc", "end"]


def test_comments_may_be_long(tmp_path: Path) -> None:
    assert listed(tmp_path, b"# " + b"long " * 50 + b"\n#" + b"x" * 20_000 + b"\nterm\n") == ["term"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"fine\r\xff\xfe\r", "line 2: not valid UTF-8"),
        (b"fine\n" + "é".encode()[:1], "line 2: not valid UTF-8"),
        (b"fine\n" + b"\xed\xa0\x80\n", "line 2: not valid UTF-8"),
        (b"fine\r\n\r\n" + b"x" * 64, "line 3: longer than 63 characters"),
        (b"fine\r" + b" " * 5000 + b"x", "line 2: longer than 63 characters"),
        (b"\r\n\r#", "has no terms"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(TermListError) as caught:
        listed(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / 'terms.txt'}")
    assert str(caught.value).endswith(problem)


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(4 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TermListError, match="zeros, line 1: longer than 63 characters"):
        read_terms(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(TermListError, match=f"{name} is not a regular file"):
            read_terms(tmp_path / name)
    with pytest.raises(TermListError, match="cannot be read: Is a directory"):
        read_terms(tmp_path)
    with pytest.raises(TermListError, match="none cannot be read: No such file or directory"):
        read_terms(tmp_path / "none")


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("one\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("terms.txt")
    assert read_terms(tmp_path / "link") == ["one"]
