"""The figures under docs/benchmarks say when, how and on what machine they were measured."""

import datetime
import re
from pathlib import Path

import msgspec
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
FILES = sorted(FOLDER.glob("*.json"))


class Measurement(msgspec.Struct, forbid_unknown_fields=True):
    """One table of figures; `commit` is the one that wrote them down."""

    what: str
    date: datetime.date
    commit: str | None
    command: str
    columns: list[str]
    rows: list[list[str | float | int]]
    notes: list[str] = []


class Subject(msgspec.Struct, forbid_unknown_fields=True):
    """A file of figures about one subject."""

    subject: str
    machine: str
    measurements: list[Measurement]


def test_nothing_else_lies_there() -> None:
    assert FILES
    assert sorted(FOLDER.iterdir()) == FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_figure_has_its_date_and_command(path: Path) -> None:
    subject = msgspec.json.decode(path.read_bytes(), type=Subject)
    assert subject.machine
    assert subject.measurements
    for measurement in subject.measurements:
        assert measurement.command
        assert measurement.commit is None or re.fullmatch(r"[0-9a-f]{7,40}", measurement.commit)
        assert measurement.rows
        assert {len(row) for row in measurement.rows} == {len(measurement.columns)}, measurement.what


def test_the_page_names_every_file_and_stays_short() -> None:
    page = (FOLDER.parent / "performance.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 150
    assert [path.name for path in FILES if f"(benchmarks/{path.name})" not in page] == []
