"""Bounds on a request's messages, however many texts each of them has."""

import pytest

from safety.match import Match
from safety.sizes import MESSAGE_TOO_LONG, PROMPT_TOO_LONG, TOO_MANY_MESSAGES, Part, Sizes, oversized

ONE = [Part(0, "abc"), Part(0, "def"), Part(0, "g")]


@pytest.mark.parametrize(
    ("parts", "sizes", "found"),
    [
        ([], Sizes(1, 1, 1), []),
        (ONE, Sizes(messages=1), []),
        ([*ONE, *[Part(None, "tool")] * 5], Sizes(messages=1), []),
        ([*ONE, Part(1, "h")], Sizes(messages=1), [(3, Match(0, 1, TOO_MANY_MESSAGES))]),
        ([Part(0, "a"), Part(2, "")], Sizes(messages=2), [(1, Match(0, 1, TOO_MANY_MESSAGES))]),
        (ONE, Sizes(message_characters=7), []),
        (ONE, Sizes(message_characters=5), [(1, Match(2, 3, MESSAGE_TOO_LONG))]),
        ([*ONE, Part(1, "abcdefg"), Part(None, "a tool's text")], Sizes(message_characters=7), []),
        (
            [Part(1, "abcd"), Part(0, "efg"), Part(1, "hi")],
            Sizes(message_characters=5),
            [(2, Match(1, 2, MESSAGE_TOO_LONG))],
        ),
        ([*ONE, Part(None, "hij")], Sizes(prompt_characters=10), []),
        ([*ONE, Part(None, "hij")], Sizes(prompt_characters=9), [(3, Match(2, 3, PROMPT_TOO_LONG))]),
        (ONE, Sizes(prompt_characters=7, message_characters=7, messages=1), []),
    ],
)
def test_what_is_over_a_bound(parts: list[Part], sizes: Sizes, found: list[tuple[int, Match]]) -> None:
    assert oversized(parts, sizes) == found
