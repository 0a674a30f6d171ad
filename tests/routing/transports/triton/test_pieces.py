"""Texts in pieces as token ids: nothing is said twice, lost or torn."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from routing.transports.triton.pieces import Pieces


class Characters:
    """A `TextCodec` whose ids are code points."""

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))

    def encode(self, text: str, *, first: bool) -> list[int]:
        return list(map(ord, text))


def read(pieces: list[str], *, cumulative: bool) -> str:
    answer = Pieces(Characters(), cumulative=cumulative)
    ids = [token for piece in pieces for token in answer.feed(piece)] + answer.flush()
    assert answer.tokens == len(ids)
    return Characters().decode(ids)


@given(st.lists(st.text()))
def test_new_text_is_passed_on(pieces: list[str]) -> None:
    assert read(pieces, cumulative=False) == "".join(pieces)


@given(st.text(), st.integers(1, 5))
def test_text_so_far_is_told_once_however_its_bytes_are_cut(text: str, step: int) -> None:
    data = text.encode()
    cuts = [data[:end].decode(errors="replace") for end in range(0, len(data), step)]
    assert read([*cuts, text, text], cumulative=True) == text


def test_what_never_becomes_a_character_is_told_at_the_end() -> None:
    assert read(["a", "a\N{REPLACEMENT CHARACTER}"], cumulative=True) == "a\N{REPLACEMENT CHARACTER}"


def test_a_response_without_text_takes_nothing_back() -> None:
    assert read(["ab", "abc", ""], cumulative=True) == "abc"
    assert read(["ab", "a", "abc"], cumulative=True) == "abc"


def test_a_text_that_begins_anew_does_not_lose_its_end() -> None:
    assert read([" ab", "Xabc", "Xabcde"], cumulative=True) == " abcde"
