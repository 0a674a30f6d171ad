"""Many strings, found at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

import safety.literals
from safety.literals import Literals

SHORT = st.binary(min_size=1, max_size=4).map(lambda data: bytes(byte % 3 for byte in data))


def everywhere(strings: list[bytes], data: bytes) -> list[tuple[int, int, int]]:
    """As one would look for them by hand."""
    return [
        (index, start, start + len(string))
        for index, string in enumerate(strings)
        for start in range(len(data) - len(string) + 1)
        if data.startswith(string, start)
    ]


@pytest.mark.parametrize("most", [25_000, 0])
@given(st.lists(SHORT, unique=True, max_size=12), st.binary(max_size=60).map(lambda data: bytes(b % 3 for b in data)))
def test_every_place_of_every_string(most: int, strings: list[bytes], data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safety.literals, "_MANY", most)
        found = Literals(strings).find(data)
    assert sorted(found) == sorted(everywhere(strings, data))
    assert [end for _, _, end in found] == sorted(end for _, _, end in found)


@pytest.mark.parametrize("most", [25_000, 0])
def test_what_other_matchers_take_for_signs(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(safety.literals, "_MANY", most)
    strings = [b"a.*b", b"(", b"\\d", b"\0", b"x\0y", "é".encode(), b"[a", b"\xff"]
    data = b" ".join(strings) + b" A.*B axxb 5"
    assert sorted(Literals(strings).find(data)) == sorted(everywhere(strings, data))


def test_threads_do_not_disturb_one_another() -> None:
    literals = Literals([b"needle", b"need"])
    data = b"hay needle " * 20_000
    with ThreadPoolExecutor(4) as pool:
        counts = set(pool.map(lambda _: len(literals.find(data)), range(16)))
    assert counts == {40_000}
