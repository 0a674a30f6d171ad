"""One answer of a request while it is parsed."""

from collections.abc import Sequence
from itertools import islice

from gateway.inference.screened_deltas import ScreenedDeltas
from gateway.text.parsing.delta import CallArguments, Delta, Reasoning, Text
from gateway.text.parsing.parser import OutputParser
from gateway.text.sequence_text import TokenEntry

_Entries = Sequence[TokenEntry]
_Waiting = list[tuple[str, _Entries]]


class ParsedAnswer:
    """A parser, with its count of reasoning tokens and the logprobs of its text.

    Logprobs go with the text of their tokens; those of reasoning, tool calls and dropped text are left out, since the
    API has no place for them. `reasoning_tokens` are exact where tokens are fed one by one while the parser is in
    reasoning. `begun` is set once something other than reasoning has come.
    """

    __slots__ = ("_entries", "begun", "feed", "parser", "reasoning_tokens", "screened")

    def __init__(self, parser: OutputParser, screened: ScreenedDeltas | None = None) -> None:
        """`screened` decides what may be shown of the parser's deltas; None: all of it."""
        self.parser = parser
        self.screened = screened
        #: Feeds text that has no logprobs.
        self.feed = parser.feed if screened is None else self._feed
        #: Text with its logprobs that no delta has taken yet.
        self._entries: _Waiting = []
        self.reasoning_tokens = 0
        self.begun = False

    @property
    def thinking(self) -> bool:
        return self.parser.thinking

    @property
    def blocked(self) -> bool:
        """Whether filters have cut the answer off."""
        return self.screened is not None and self.screened.blocked

    def _feed(self, text: str) -> list[Delta]:
        assert self.screened is not None, "else it is the parser's"
        return self.screened.feed(self.parser.feed(text))

    def take(self, text: str, entries: _Entries) -> list[Delta]:
        """Parse the next piece with its tokens' logprobs. Raises FilterFailed."""
        deltas = self._taken(text, entries)
        return deltas if self.screened is None else self.screened.feed(deltas)

    def _taken(self, text: str, entries: _Entries) -> list[Delta]:
        thought = self.parser.thinking
        deltas = self.parser.feed(text)
        if not self.begun:
            self.begun = any(not isinstance(delta, Reasoning) for delta in deltas)
        if thought and not any(isinstance(delta, Text) for delta in deltas):
            # The closing mark belongs to the reasoning, too, though it yields no delta.
            self._entries.clear()
            return deltas
        return self._with_entries(deltas, text, entries)

    def pass_by(self, flow: Delta, text: str, tokens: int) -> Delta:
        """Take a piece of calm tokens without logprobs past the parser, whose `flow` is their kind of delta."""
        if isinstance(flow, Reasoning):
            self.reasoning_tokens += tokens
            return Reasoning(text)
        self.begun = True
        return CallArguments(flow.call, text) if isinstance(flow, CallArguments) else Text(text)

    def finish(self) -> list[Delta]:
        """Parse the end of the answer. Raises FilterFailed."""
        deltas = self._with_entries(self.parser.finish(), "", ())
        return deltas if self.screened is None else self.screened.feed(deltas) + self.screened.finish()

    def _with_entries(self, deltas: list[Delta], text: str, entries: _Entries) -> list[Delta]:
        waiting = self._entries
        if not entries and not waiting:
            return deltas
        waiting.append((text, entries))
        for position, delta in enumerate(deltas):
            if isinstance(delta, Text):
                given, self._entries = _take_entries(delta.text, waiting)
                return [*islice(deltas, position), delta._replace(entries=given), *deltas[position + 1 :]]
        if deltas:
            waiting.clear()
        return deltas


def _take_entries(shown: str, waiting: _Waiting) -> tuple[tuple[TokenEntry, ...], _Waiting]:
    """Split the waiting logprobs: those of the delta's text `shown`, found at its last occurrence, and those after it.

    The parser may have dropped white space around the text.
    """
    received = "".join([text for text, _ in waiting])
    begin = received.rfind(shown)
    if begin < 0:
        return (), []
    begin, end = len(received[:begin].rstrip()), begin + len(shown)
    end += len(received[end:]) - len(received[end:].lstrip())
    given: list[TokenEntry] = []
    later: _Waiting = []
    at = 0
    for text, entries in waiting:
        start, at = at, at + len(text)
        if at > end:
            later.append((received[max(start, end) : at], entries))
        elif start >= begin:
            given += entries
    return tuple(given), later
