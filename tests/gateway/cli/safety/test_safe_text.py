import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.safety.safe_text import excerpt, printable


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("plain", 5, "plain"),
        ("abcdefghij", 7, "abc…hij"),
        ("a\tb\nc\x1b", 20, "a\\tb\\nc\\u001b"),
        ("a\u200bb", 20, "a\\u200bb"),
        ("東京都庁舎", 7, "東…舎"),
        ("\U000e0041", 20, "\\U000e0041"),
    ],
)
def test_an_excerpt_is_one_line_of_a_width(text: str, width: int, shown: str) -> None:
    assert excerpt(text, 0, len(text), width) == shown


@given(st.text(), st.integers(3, 40))
def test_an_excerpt_is_never_wider(text: str, width: int) -> None:
    shown = excerpt(text, 0, len(text), width)
    assert shown.isprintable()
    assert (
        sum(
            0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
            for character in shown
        )
        <= width
    )


def test_only_controls_are_escaped_in_a_text() -> None:
    assert printable("a\tb\nc\u200d\x1b\u202e\x85") == "a\tb\nc\u200d\\u001b\\u202e\\u0085"
