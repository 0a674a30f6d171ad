"""Strings that an expression cannot match without."""

import re

import pytest

from safety.injection.lexicon import TABLES
from safety.injection.needles import needles


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("(?:cat|dog)s?", {"cat", "dog"}),
        (r"a(?:b|c) (?:word|other)\b", {"word", "other"}),
        (r"(?:one)?(?:twos|three)", {"twos", "three"}),
        (r"(?:one){0,3}x", None),
        (r"[abc]{3,5}words?", {"word"}),
        (r"word|(?:more|less)er", {"word", "more", "less"}),
        (r"word|.", None),
        (r"(?!never)(?:this|that)", {"this", "that"}),
        (r"\(never\)[)\]]same", {"never"}),
        ("", None),
    ],
)
def test_needles(source: str, needed: set[str] | None) -> None:
    assert needles(source) == (None if needed is None else frozenset(needed))


def test_later_ones_leave_out_the_beginning() -> None:
    assert needles("(?:verbs|verb) (?:things|others)", later=True) == frozenset({"things", "others"})
    assert needles("(?:verbs|verb)", later=True) is None


def test_every_expression_compiles_and_begins_with_one_of_its_anchors() -> None:
    for table in TABLES:
        for cue in table.cues:
            assert cue.anchors
            assert all(anchor.removesuffix("$") for anchor in cue.anchors)
            assert isinstance(cue.here, re.Pattern)
            assert cue.behind is None or isinstance(cue.before, re.Pattern)
