"""Where PLACE is looked for at all: nothing is found elsewhere, however numbers, words and signs stand together."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import safety.pii.filter
from safety.match import Match
from safety.pii.filter import PiiFilter
from safety.pii.hot import areas
from safety.sets.labelled import SHIPPED, load

FILTER = PiiFilter()
TEXTS = [one.text for one in load(SHIPPED).spans]


def everywhere(text: str) -> list[Match]:
    """The matches where all places are looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safety.pii.filter, "areas", lambda text: [(0, len(text))])
        return FILTER.scan(text)


WORDS = st.sampled_from(
    (
        "phone ",
        "tel: ",
        "DNI ",
        "SSN ",
        "my_id=",
        "card ",
        "order ",
        "passport no ",
        "the PIN is ",
        "password: ",
        "x",
        "",
    )
)
NUMBERS = st.one_of(
    st.text("0123456789", min_size=5, max_size=22),
    st.sampled_from(("4111111111111111", "4111 1111 1111 1111", "+49 170 1234567", "10.1.2.3", "2026-11-26T10:00:00")),
)
JOINS = st.sampled_from(
    (",", ", ", "\n", "\t", "|", " ", ")", "]", '"', ": ", "=", "-", "/", ".", "\\n", "(", "+", "é")
)
CELLS = st.tuples(st.one_of(st.just(""), WORDS), NUMBERS, JOINS).map("".join)
PIECES = st.one_of(
    st.sampled_from(TEXTS),
    st.lists(CELLS, min_size=1, max_size=40).map("".join),
    st.sampled_from(("ı", "İ", "\ud800", "٠١٢٣٤٥٦٧٨٩", "１２３４５６７", "def f(x): return x[1]\n", "@", "::1", "sk-")),
)


@example("1234567, " * 300)
@example("12 " * 900)
@example("5551234567; " * 40 + "my phone: 5551234567; " + "5551234567; " * 40)
@example("a" * 1020 + " 4111111111111111" + "b" * 10)
@example("a" * 1000 + " APP_USR-3512277149326025-272628-5999ed5b8a04fac2998c64ad8495b3ba-441018660 ")
@example("produção é APP_USR-3512277149326025-272628-5999ed5b8a04fac2998c64ad8495b3ba-441018660. Alguém")
@given(st.lists(PIECES, max_size=8).map("".join))
def test_nothing_is_found_elsewhere(text: str) -> None:
    assert FILTER.scan(text) == everywhere(text)


def test_rows_of_numbers_that_nothing_speaks_of_are_passed_over() -> None:
    row = ", ".join(str(8_300_000 + 7 * number) for number in range(20)) + "\n"
    assert areas(row) == []
    assert areas(f"phones: {row}") != []
    assert areas(row.replace("8300007", "4111111111111111")) != []


def test_of_a_log_only_what_has_a_form_is_looked_at() -> None:
    line = "2026-11-26T13:05:33.123Z INFO worker-3 request id=00c0ffee path=/v1/items/77 status=200 took=5ms\n"
    assert sum(last - first for first, last in areas(line * 100)) < len(line) * 100 / 8
