"""docs/fast-start.md lists every coefficient of the start model as it is."""

from dataclasses import fields
from pathlib import Path

from replicas.fast_start.start_model import StartCoefficients

PAGE = Path(__file__).parents[2] / "docs" / "fast-start.md"


def test_the_page_lists_the_coefficients() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    expected = []
    for one in fields(StartCoefficients):
        told = one.metadata
        expected.append(f"| `{one.name}` | {one.default:g} {told['unit']} | {told['means']} | {told['source']} |")
    assert rows[-len(expected) :] == expected
