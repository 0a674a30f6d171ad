"""What an answer consists of, piece by piece, whatever form its model writes it in."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gateway.text.sequence_text import TokenEntry


class ToldChoice(msgspec.Struct, frozen=True):
    """A token that might have been said, by its text."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class ToldLogprob(msgspec.Struct, frozen=True):
    """A token that was said, by its text, and what it was chosen from."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[ToldChoice] = []


class Text(NamedTuple):
    """A piece of what is said to the user.

    Parsers leave `entries`, its tokens' ids and logprobs, to their callers; where an upstream tells logprobs, they are
    in `told`, as the chat API has them.
    """

    text: str
    entries: Sequence[TokenEntry] = ()
    told: Sequence[ToldLogprob] = ()


class Reasoning(NamedTuple):
    """A piece of the model's thoughts."""

    text: str


class CallStart(NamedTuple):
    """A tool call begins: the `call`th of this answer, from 0. `id` is unique within the answer."""

    call: int
    id: str
    name: str


class CallArguments(NamedTuple):
    """A piece of the JSON text that a call's arguments are. All pieces of a call come between its start and the next
    call's; together they are what the model has written, which need not be valid JSON where it was cut short.
    """

    call: int
    text: str


Delta = Text | Reasoning | CallStart | CallArguments
