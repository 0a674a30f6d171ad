import pytest

from observability.terminal import fitted, print_table, wrapped

ROWS = [("ID", "NAME"), ("a-1", "a long name of something"), ("b", "")]


def test_a_table_that_fits_is_one() -> None:
    assert list(fitted(ROWS, 29)) == ["ID   NAME", "a-1  a long name of something", "b"]


def test_on_a_narrow_terminal_each_row_is_a_block() -> None:
    assert list(fitted(ROWS, 28)) == ["ID    a-1", "NAME  a long name of something", "", "ID    b"]


def test_the_terminal_says_how_wide_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # What is no terminal gets lines that programs can take apart.
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(ROWS[0], ROWS[1:])
    assert capsys.readouterr().out.splitlines()[0] == "ID   NAME"
    monkeypatch.setenv("COLUMNS", "20")
    print_table(ROWS[0], ROWS[1:])
    assert capsys.readouterr().out.splitlines()[0] == "ID    a-1"


def test_wrapped_lines_leave_paths_and_names_whole() -> None:
    lines = wrapped("it has ended (log: /var/lib/pen-stock/launched/a-pool-1.log)", 48)
    assert lines == ["  it has ended (log:", "    /var/lib/pen-stock/launched/a-pool-1.log)"]
    assert max(map(len, wrapped("x" * 99, 10, "", ""))) == 40
