"""The tables of patterns: each rule finds what its examples mark, in whole texts and in streams, and nothing else."""

import re

import pytest

from safety.match import merged
from safety.pii.checksums import CHECKS
from safety.pii.columns import KINDS_OF_CELLS
from safety.pii.kinds import ALL
from safety.pii.pii_filter import PiiFilter
from safety.pii.rule_tables import WITH_EXAMPLES, Example, lines, rows, words

FILTER = PiiFilter()
EXAMPLES = [
    pytest.param(row.fields[0], example, id=f"{table}-{number}-{row.fields[0]}-{which}")
    for table in WITH_EXAMPLES
    for number, row in enumerate(rows(table))
    for which, example in enumerate(row.examples)
]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_an_example_is_what_it_says(kind: str, example: Example) -> None:
    found = FILTER.scan(example.text)
    of_kind = [(match.start, match.end) for match in found if match.label == kind]
    assert of_kind == ([] if example.found is None else [example.found])
    stream = FILTER.stream()
    told = [match for character in example.text for match in stream.feed(character)]
    assert merged([*told, *stream.finish()]) == found


@pytest.mark.parametrize("table", WITH_EXAMPLES)
def test_each_rule_has_an_example_of_either_kind(table: str) -> None:
    for row in rows(table):
        assert {example.found is None for example in row.examples} == {True, False}, row.fields


def test_rules_are_of_known_kinds_and_checks() -> None:
    assert {row[0] for table in WITH_EXAMPLES for row in lines(table)} <= ALL
    assert ALL - {row[0] for table in WITH_EXAMPLES for row in lines(table)} == {"email"}
    assert KINDS_OF_CELLS <= ALL
    for table in ("tokens.txt", "codes.txt", "numbers.txt"):
        assert {row[2] for row in lines(table)} <= set(CHECKS)


def test_each_check_is_used() -> None:
    used = {row[2] for table in ("tokens.txt", "codes.txt", "numbers.txt") for row in lines(table)}
    used |= {row[3] for row in lines("values.txt")}
    assert set(CHECKS) <= used


def test_words_are_expressions() -> None:
    for name, _ in lines("words.txt"):
        assert re.compile(words(name))
