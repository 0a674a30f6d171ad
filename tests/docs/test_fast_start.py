"""docs/fast-start.md lists every coefficient of the start model as it is."""

from dataclasses import fields
from pathlib import Path

from replicas.fast_start.start_model import StartCoefficients

PAGE = Path(__file__).parents[2] / "docs" / "fast-start.md"


def test_the_page_lists_the_coefficients() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `") and "` |" in line]
    expected = [
        f"| `{one.name}` | {one.default:g} {one.metadata['unit']} | {one.metadata['means']} | {one.metadata['source']} |"
        for one in fields(StartCoefficients)
    ]
    assert [row for row in rows if row.count("|") == 5][-len(expected) :] == expected
