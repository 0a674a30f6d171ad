"""Whatever a rule may match is held from its begin on until it is whole."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safety.match import Match
from safety.pii.beginnings import begun
from safety.pii.pii_filter import PiiFilter
from safety.pii.places import candidates
from safety.pii.rule_tables import WITH_EXAMPLES, lines, rows

LOOKAROUND = re.compile(r"\(\?<?[=!](?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)")
FORMS = sorted(
    {
        LOOKAROUND.sub("", form.replace(r"\x{a0}", r"\xa0"))
        for table in ("tokens.txt", "codes.txt")
        for _, form, *_ in lines(table)
    }
)
EXAMPLES = [
    (example.text, example.found)
    for table in WITH_EXAMPLES
    for row in rows(table)
    for example in row.examples
    if example.found is not None
]


@pytest.mark.parametrize("form", FORMS)
def test_each_prefix_of_a_match_is_a_beginning(form: str) -> None:
    @settings(max_examples=30, deadline=None, database=None)
    @given(
        st.from_regex(re.compile(form, re.ASCII), fullmatch=True),
        st.sampled_from(["", " ", "see ", "(", '"', "是", "x, "]),
    )
    def check(text: str, before: str) -> None:
        for end in range(1, min(len(text), 64)):
            seen, start = before + text[:end], len(before)
            known = [place for place, *_ in candidates(seen, seen.encode())]
            assert start in (begun(seen, start), *known), seen

    check()


def test_no_character_of_a_match_is_let_go_before_it_is_known() -> None:
    filter_ = PiiFilter()
    for text, (start, _) in EXAMPLES:
        whole = [match for match in filter_.scan(text) if match.start == start]
        stream = filter_.stream()
        told: list[Match] = []
        for place, character in enumerate(text):
            told += stream.feed(character)
            if whole and not told and place < whole[0].end - 1:
                assert stream.open <= start, text[: place + 1]
