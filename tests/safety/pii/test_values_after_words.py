"""Values of the shipped set with other figures, after words that stand before others: nothing fails, however it is cut.

A check that did not know a form of its number once made the filter fail, and so an honest prompt was refused.
"""

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from safety.match import merged
from safety.pii.filter import PiiFilter
from safety.plain_text import plain_bytes
from safety.prefilter import Prefilter
from safety.sets.labelled import SHIPPED, load

FILTER = PiiFilter()
GLANCE = Prefilter([FILTER]).prefilter_pass([FILTER])
_TEXTS = load(SHIPPED[:1]).spans
VALUES = sorted({text.text[span.start : span.end] for text in _TEXTS for span in text.spans})
#: What stands before a value: up to three words, with what is between them.
LEFT = re.compile(r"(?:[^\W\d_]+[\W_]{1,3}){0,2}[^\W\d_]+[\W_]{0,3}$")
WORDS = sorted(
    {found[0] for text in _TEXTS for span in text.spans if (found := LEFT.search(text.text, 0, span.start)) is not None}
)
SEPARATORS = ["", " ", ": ", "=", " is ", "\n", ", ", " no. ", "(", '"', "：", "は", " - "]


@st.composite
def values(draw: st.DrawFn) -> str:
    """One of the set's, with some of its figures drawn anew, and maybe another separator between them."""
    value = draw(st.sampled_from(VALUES))
    figures = draw(st.text("0123456789", min_size=len(value), max_size=len(value)))
    kept = draw(st.lists(st.booleans(), min_size=len(value), max_size=len(value)))
    value = "".join(
        new if old.isdigit() and not keeps else old for old, new, keeps in zip(value, figures, kept, strict=True)
    )
    return re.sub(r"(?<=\d)[ .\-/](?=\d)", draw(st.sampled_from(["", " ", "-", ".", "/"])), value)


TOLD = st.builds(lambda *parts: "".join(parts), st.sampled_from(WORDS), st.sampled_from(SEPARATORS), values())


@settings(max_examples=600, deadline=None)
@given(
    st.lists(TOLD, min_size=1, max_size=3),
    st.sampled_from([" ", "\n", ", ", ". "]),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_nothing_fails(told: list[str], between: str, cuts: list[int]) -> None:
    text = between.join(told)
    whole = FILTER.scan(text)
    assert all(0 <= match.start < match.end <= len(text) for match in whole)
    assert FILTER.scan(text, plain_bytes(text)) == whole
    assert not whole or list(GLANCE(text)) == [0]
    stream = FILTER.stream()
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    found = [match for start, end in pairwise(places) for match in stream.feed(text[start:end])]
    assert merged([*found, *stream.finish()]) == whole


def test_there_are_enough_of_both() -> None:
    assert len(WORDS) > 200
    assert len(VALUES) > 300
