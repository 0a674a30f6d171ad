"""Bounds on the text of a request."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from safety.match import Match

TOO_MANY_MESSAGES: Final = "too_many_messages"
MESSAGE_TOO_LONG: Final = "message_too_long"
PROMPT_TOO_LONG: Final = "prompt_too_long"


class Sizes(NamedTuple):
    """The most that a request may have; None is any number."""

    prompt_characters: int | None = None
    message_characters: int | None = None
    messages: int | None = None


def oversized(texts: Sequence[str], sizes: Sizes) -> list[tuple[int, Match]]:
    """What is over a bound: which text, and the match, from the first character too many on."""
    if sizes.messages is not None and len(texts) > sizes.messages:
        return [(sizes.messages, Match(0, max(1, len(texts[sizes.messages])), TOO_MANY_MESSAGES))]
    total = 0
    for index, text in enumerate(texts):
        length = len(text)
        if sizes.message_characters is not None and length > sizes.message_characters:
            return [(index, Match(sizes.message_characters, length, MESSAGE_TOO_LONG))]
        if sizes.prompt_characters is not None and total + length > sizes.prompt_characters:
            return [(index, Match(sizes.prompt_characters - total, length, PROMPT_TOO_LONG))]
        total += length
    return []
