"""What a narrow terminal shows is true: no number loses digits, and names that differ look different."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from gateway.cli.top.top_columns import GAP, Column, columns_table, cut, figure, fitting, name

COLUMNS = [name("REPLICA"), figure("RUN", 2), figure("WAIT", 1), Column("WHY", 3, least=10)]
ROWS = [
    [("mixtral/mixtral-6d5f7c9b8-x2v9k", ""), ("118", ""), ("1,432", ""), ("an operator drains it", "")],
    [("mixtral/mixtral-6d5f7c9b8-qq7lz", ""), ("-", ""), ("12", ""), ("", "")],
]


def drawn(width: int, left_out: int = 0) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(columns_table(COLUMNS, ROWS, left_out, width))
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue().splitlines()


def test_all_of_it_where_there_is_room() -> None:
    header, first, second = drawn(80)
    assert header.split() == ["REPLICA", "RUN", "WAIT", "WHY"]
    assert first.split(None, 3) == ["mixtral/mixtral-6d5f7c9b8-x2v9k", "118", "1,432", "an operator drains it"]
    assert second.rstrip().endswith("-     12")


def test_numbers_leave_in_their_order_and_are_never_cut() -> None:
    assert drawn(40)[1].split(None, 3)[1:3] == ["118", "1,432"]
    header, first, _ = drawn(30)
    assert header.split() == ["REPLICA", "RUN", "WHY"]
    assert "118" in first
    header, first, second = drawn(14, left_out=7)
    assert header.split() == ["REPLICA", "+7"]
    assert (first.strip(), second.strip()) == ("mixtral…-x2v9k", "mixtral…-qq7lz")


@given(st.text(max_size=30), st.integers(1, 30), st.booleans())
def test_what_is_cut_fits(text: str, width: int, ends: bool) -> None:
    done = cut(text, width, ends=ends)
    assert cell_len(done) <= width or done == text
    assert (done == text) == (cell_len(text) <= width) or text == "…"


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 120),
)
def test_widths(drawn_columns: list[tuple[int, int, bool]], width: int) -> None:
    columns = [Column("T", rank, 5 if flexible else None) for _, rank, flexible in drawn_columns]
    natural = [full for full, _, _ in drawn_columns]
    widths = fitting(columns, natural, [1] * len(columns), width)
    taken = sum(widths.values()) + GAP * (len(widths) - 1)
    always = [place for place, column in enumerate(columns) if not column.rank]
    assert set(always) <= set(widths)
    assert all(widths[place] <= natural[place] for place in widths)
    assert all(widths[place] == natural[place] for place in widths if columns[place].least is None)
    if set(widths) != set(always):
        assert taken <= width
