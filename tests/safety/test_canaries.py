"""Canaries: found whatever is hidden in them, and however an answer comes."""

import pytest

from safety.canaries import CanaryFilter
from safety.plain_text import plain_bytes
from tests.safety.cuts import assert_agrees


@pytest.mark.parametrize(
    "told",
    [
        "canary-12345678",
        "CANARY-12345678",
        "can\u00adary-12345678",
        "can\x00ary-\x0112345678",
        "can\x9fary-12345\u2800678",
        "é can\x7fary-12345678",
    ],
)
def test_what_nobody_sees_makes_no_difference(told: str) -> None:
    filter_ = CanaryFilter([], "canary-").for_prompt(["Keep canary-12345678, to yourself."])
    text = f"It says {told}."
    assert [text[match.start : match.end] for match in filter_.scan(text)] == [told.removeprefix("é ")]
    assert filter_.scan(text, plain_bytes(text)) == filter_.scan(text)
    assert_agrees(filter_, text, [10, 13])


def test_what_parts_words_makes_one() -> None:
    assert CanaryFilter(["canary-12345678"]).scan("can\x85ary-12345678 can\tary-12345678") == []
