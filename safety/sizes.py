"""Limits on the number and length of a request's messages."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from safety.match import Match

TOO_MANY_MESSAGES: Final = "too_many_messages"
MESSAGE_TOO_LONG: Final = "message_too_long"
PROMPT_TOO_LONG: Final = "prompt_too_long"


class Sizes(NamedTuple):
    """The limits of a request; None means no limit."""

    prompt_characters: int | None = None
    message_characters: int | None = None
    messages: int | None = None


class Part(NamedTuple):
    """A text of a request with the index of its message; None if it is in no message."""

    message: int | None
    text: str


def oversized(parts: Sequence[Part], sizes: Sizes) -> list[tuple[int, Match]]:
    """Return the first text over a limit: its index, and a match from the first excess character on.

    A message may have several texts, or none: messages are counted by the highest index.
    """
    if sizes.messages is not None:
        for index, (message, text) in enumerate(parts):
            if message is not None and message >= sizes.messages:
                return [(index, Match(0, max(1, len(text)), TOO_MANY_MESSAGES))]
    total = 0
    lengths: Counter[int] = Counter()
    for index, (message, text) in enumerate(parts):
        length = len(text)
        if sizes.message_characters is not None and message is not None:
            before = lengths[message]
            if before + length > sizes.message_characters:
                return [(index, Match(sizes.message_characters - before, length, MESSAGE_TOO_LONG))]
            lengths[message] = before + length
        if sizes.prompt_characters is not None and total + length > sizes.prompt_characters:
            return [(index, Match(sizes.prompt_characters - total, length, PROMPT_TOO_LONG))]
        total += length
    return []
