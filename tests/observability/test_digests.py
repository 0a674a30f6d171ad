"""Hashes that only who has the key and the text can make."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.digests import DigestKeyError, Digests, digest_key


@given(st.lists(st.text()))
def test_pieces_have_the_hash_of_the_whole(pieces: list[str]) -> None:
    digests = Digests(b"k" * 32)
    digest = digests.begin()
    for piece in pieces:
        digest.update(piece)
    whole = "".join(pieces)
    assert digest.hexdigest() == digests.of(whole.encode("utf-8", "surrogatepass"))
    assert digest.characters == len(whole)


def test_another_key_gives_another_hash() -> None:
    assert Digests(b"a" * 32).of(b"text") != Digests(b"b" * 32).of(b"text")


def test_all_who_start_at_once_have_one_key(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: digest_key(state), range(8)))
    assert len(set(keys)) == 1
    assert [path.name for path in state.iterdir()] == ["digest.key"]
    assert (state / "digest.key").stat().st_mode & 0o777 == 0o600
    assert digest_key(state) == keys[0]


def test_what_is_wrong_with_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "digest.key").write_bytes(b"short")
    with pytest.raises(DigestKeyError, match=r"digest\.key: expected 32 bytes, found 5"):
        digest_key(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DigestKeyError, match=r"Not a directory|exists"):
        digest_key(tmp_path / "file" / "state")
