"""One answer of a request while it is taken apart."""

from collections.abc import Sequence
from itertools import islice

from gateway.inference.screened_deltas import ScreenedDeltas
from gateway.text.parsing.delta import CallArguments, Delta, Reasoning, Text
from gateway.text.parsing.parser import OutputParser
from gateway.text.sequence_text import TokenEntry

_Entries = Sequence[TokenEntry]
_Waiting = list[tuple[str, _Entries]]


class ParsedAnswer:
    """A parser, and what is counted beside it.

    Logprobs go with the text that comes of their tokens; those of thoughts and calls are left out, as the API has no
    place for them, and so are those of text that a parser throws away. `reasoning_tokens` are exact where tokens are
    fed one by one while it thinks. Once it has `begun`, something else than a thought has come.
    """

    __slots__ = ("_entries", "begun", "feed", "parser", "reasoning_tokens", "screened")

    def __init__(self, parser: OutputParser, screened: ScreenedDeltas | None = None) -> None:
        """Of an answer that begins; `screened`: what may be shown of what comes of it."""
        self.parser = parser
        self.screened = screened
        #: Without tokens: for what comes in other ways, or has no logprobs.
        self.feed = parser.feed if screened is None else self._feed
        #: With the text that came with them.
        self._entries: _Waiting = []
        self.reasoning_tokens = 0
        self.begun = False

    @property
    def thinking(self) -> bool:
        """As the parser has it."""
        return self.parser.thinking

    @property
    def blocked(self) -> bool:
        """Whether filters have cut it off."""
        return self.screened is not None and self.screened.blocked

    def _feed(self, text: str) -> list[Delta]:
        assert self.screened is not None, "else it is the parser's"
        return self.screened.feed(self.parser.feed(text))

    def take(self, text: str, entries: _Entries) -> list[Delta]:
        """The next piece with its tokens' logprobs. Raises FilterFailed."""
        deltas = self._taken(text, entries)
        return deltas if self.screened is None else self.screened.feed(deltas)

    def _taken(self, text: str, entries: _Entries) -> list[Delta]:
        thought = self.parser.thinking
        deltas = self.parser.feed(text)
        if not self.begun:
            self.begun = any(not isinstance(delta, Reasoning) for delta in deltas)
        if thought and not any(isinstance(delta, Text) for delta in deltas):
            # The closing mark is the thought's, too, though nothing comes of it.
            self._entries.clear()
            return deltas
        return self._with_entries(deltas, text, entries)

    def pass_by(self, flow: Delta, text: str, tokens: int) -> Delta:
        """The next piece, of calm tokens without logprobs, where the parser's `flow` says what comes of it."""
        if isinstance(flow, Reasoning):
            self.reasoning_tokens += tokens
            return Reasoning(text)
        self.begun = True
        return CallArguments(flow.call, text) if isinstance(flow, CallArguments) else Text(text)

    def finish(self) -> list[Delta]:
        """The end of the answer. Raises FilterFailed."""
        deltas = self._with_entries(self.parser.finish(), "", ())
        return deltas if self.screened is None else self.screened.feed(deltas) + self.screened.finish()

    def _with_entries(self, deltas: list[Delta], text: str, entries: _Entries) -> list[Delta]:
        waiting = self._entries
        if not entries and not waiting:
            return deltas
        waiting.append((text, entries))
        for position, delta in enumerate(deltas):
            if isinstance(delta, Text):
                given, self._entries = _of(delta.text, waiting)
                return [*islice(deltas, position), delta._replace(entries=given), *deltas[position + 1 :]]
        if deltas:
            waiting.clear()
        return deltas


def _of(said: str, waiting: _Waiting) -> tuple[tuple[TokenEntry, ...], _Waiting]:
    """Those of the text that is said, which is the last that came of what may be it; and those that wait still.

    White space around it may have been left out.
    """
    came = "".join([text for text, _ in waiting])
    begin = came.rfind(said)
    if begin < 0:
        return (), []
    begin, end = len(came[:begin].rstrip()), begin + len(said)
    end += len(came[end:]) - len(came[end:].lstrip())
    given: list[TokenEntry] = []
    later: _Waiting = []
    at = 0
    for text, entries in waiting:
        start, at = at, at + len(text)
        if at > end:
            later.append((came[max(start, end) : at], entries))
        elif start >= begin:
            given += entries
    return tuple(given), later
