"""No text makes the work grow faster than itself."""

import pytest

import safety.pii.pii_stream
from safety.pii.pii_filter import PiiFilter
from safety.pii.places import candidates, candidates_and_names

UNITS = [
    "1",
    "4",
    "a@",
    "4111 1111 1111 1112 ",
    "QUJDRGVm",
    "-----BEGIN",
    "-----BEGIN PRIVATE KEY-----",
    ".",
    "bob@example.com ",
    "1 ",
    "12 ",
    "1234 ",
    "a.",
    "1.",
    "1.1.1.1 ",
    "a:",
    ":",
    "password=",
    "password: x ",
    "5551234567 ",
    "123456789 x ",
    "(",
    "+",
    "DE89 3704 0044 ",
    "eyJ",
    "sk-",
    "我有12个",
    "a [at] ",
    "a@b.",
    "://a:b",
    "AB12 CD34 ",
    '"token": "',
    "1-",
    "\n",
    "é@",
    "0123456789abcdef",
    "my password is ",
    "bearer ",
    "\ud800",
    "x" * 63 + "@",
    "password ab1cde ",
    "password for x is ",
    "key = ab1cdefghijklmnopqrstuvwxyz",
    "gsk_",
    "://x:" + "a1" * 20,
    "-us1",
    "'a1",
]


@pytest.mark.parametrize("unit", UNITS)
def test_places_looked_at_are_in_proportion(unit: str) -> None:
    counts = []
    for length in (20_000, 40_000):
        text = (unit * length)[:length]
        counts.append(len(candidates(text, text.encode("utf-8", "replace"))))
    # Several rules may want to look at one place.
    assert counts[0] <= 3 * 20_000
    assert counts[1] <= 2 * counts[0] + 100


@pytest.mark.parametrize("unit", UNITS)
def test_a_stream_looks_at_each_character_a_bounded_number_of_times(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def counted(text: str, data: bytes, start: int) -> tuple[list[tuple[int, int, int]], bool]:
        nonlocal looked
        looked += len(text)
        return candidates_and_names(text, data, start)

    monkeypatch.setattr(safety.pii.pii_stream, "candidates_and_names", counted)
    counts = []
    for length in (4_000, 8_000):
        looked = 0
        feed = PiiFilter().stream().feed
        for character in (unit * length)[:length]:
            feed(character)
        counts.append(looked)
    assert counts[1] <= 2.1 * counts[0] + 1_000


@pytest.mark.parametrize("unit", UNITS)
def test_a_place_is_told_from_a_window(unit: str) -> None:
    """What is recognized at a place does not change when more text follows, so that the work for it is bounded."""
    text = (unit * 400)[:400]
    whole = [match for match in PiiFilter().scan(text) if match.start < 200]
    shorter = [match for match in PiiFilter().scan(text[:300]) if match.start < 200]
    assert [match[:1] for match in whole] == [match[:1] for match in shorter]
