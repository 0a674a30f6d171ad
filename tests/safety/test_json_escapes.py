"""Escapes that JSON does not need are undone, whole or in pieces, and the JSON means the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safety.json_escapes import Unescaping, unescaped
from tests.safety.cuts import pieces

PARTS = ["\\", "u", "00fc", "D83D", "\\udE00", "\\u0022", "\\u005c", "\\u000a", "\\u006f", "\\n", '"', "x", "00", "\n"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r'{"a": "Mond \u00fcber K\u00F6ln"}', '{"a": "Mond über Köln"}'),
        (r"f\u006frbidden", "forbidden"),
        (r"\ud83d\ude00 \ud83d \ude00\ud83d", r"😀 \ud83d \ude00\ud83d"),
        (r"\u0022\u005c\u0000\u001f\u007f\u0085", r"\u0022\u005c\u0000\u001f\u007f\u0085"),
        (r"\\u006f \\\u006f \u00f", r"\\u006f \\o \u00f"),
        (r"\n \t \/ \x", r"\n \t \/ \x"),
    ],
)
def test_what_is_undone(text: str, plain: str) -> None:
    assert unescaped(text) == plain


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_it_means_the_same(value: object) -> None:
    text = json.dumps(value)
    assert json.loads(unescaped(text)) == json.loads(text)


@given(st.lists(st.sampled_from(PARTS), max_size=10).map("".join), st.lists(st.integers(0, 99), max_size=6))
def test_pieces_are_as_the_whole(text: str, cuts: list[int]) -> None:
    for parts in (pieces(text, cuts), list(text)):
        escapes = Unescaping()
        fed = "".join([escapes.feed(part) for part in parts])
        assert fed + escapes.rest == unescaped(text)
