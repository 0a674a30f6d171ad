"""Deltas of an answer, independent of the model's output format."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gateway.text.sequence_text import TokenEntry


class ToldChoice(msgspec.Struct, frozen=True):
    """A token that could have been chosen, by its text."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class ToldLogprob(msgspec.Struct, frozen=True):
    """A chosen token by its text, with its alternatives."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[ToldChoice] = []


class Text(NamedTuple):
    """A piece of text for the user.

    Parsers leave `entries`, its tokens' ids and logprobs, to their callers; an upstream's logprobs are in `told`, in
    the chat API's form.
    """

    text: str
    entries: Sequence[TokenEntry] = ()
    told: Sequence[ToldLogprob] = ()


class Reasoning(NamedTuple):
    """A piece of the model's reasoning. An empty one, as only whole answers have, says that the text before it was
    reasoning, too.
    """

    text: str


class CallStart(NamedTuple):
    """The start of the answer's tool call number `call`, from 0. `id` is unique within the answer."""

    call: int
    id: str
    name: str


class CallArguments(NamedTuple):
    """A piece of a call's arguments as JSON text. All pieces of a call come between its start and the next call's;
    together they are what the model has written, which is invalid JSON if it was cut short.
    """

    call: int
    text: str


Delta = Text | Reasoning | CallStart | CallArguments
