"""What folding leaves alone, and how much of a text tells how it begins."""

import sys

from hypothesis import example, given
from hypothesis import strategies as st

from safety.injection.fold import LOOKALIKES, begins, folded, has_lookalikes, is_itself, plain


def test_characters_that_are_themselves_fold_to_themselves_both_ways() -> None:
    for code in range(0x80, sys.maxunicode + 1):
        char = chr(code)
        same = all(folded(char, latin=latin).text == char for latin in (False, True))
        assert is_itself(char) == same, hex(code)
        assert has_lookalikes(char) == (char in LOOKALIKES), hex(code)


@example("\u200bi\u0301gno", "ign")
@example("ig", "ignore")
@given(st.text("igno\u0301\u200bÍＧñ", max_size=10), st.text("igno", min_size=1, max_size=6))
def test_a_text_begins_as_its_fold_does(text: str, start: str) -> None:
    assert begins(text, start) == plain(text).startswith(start)
