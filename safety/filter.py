"""The seam of local filters: a filter finds matches in a whole text, or in a text that is streamed in pieces.

All filters are pure, keep no state between texts, take time linear in the text's length and never wait.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from safety.match import Match
from safety.prefilter import Prefiltered


class Filter(Protocol):
    """Find matches in whole texts."""

    def scan(self, text: str) -> list[Match]:
        """The matches in order of their start, without overlaps."""
        ...


class Stream(Protocol):
    """Find matches in one text that is streamed in pieces.

    However the text is cut, `merged` of all matches from `feed` and `finish` equals `merged` of the filter's `scan` of
    the whole. Matches come in order, each as soon as later text cannot change it; a long match may come in parts that
    touch.
    """

    @property
    def open(self) -> int:
        """The first undecided character of the text: all further matches start there or later.

        The distance from it to the text's end is the number of characters to hold back.
        """
        ...

    def feed(self, text: str) -> Sequence[Match]:
        """Process the next piece, which may be empty; return the matches that are certain now."""
        ...

    def finish(self) -> Sequence[Match]:
        """End the text; return the remaining matches. `open` is then the text's length."""
        ...


class StreamFilter(Filter, Prefiltered, Protocol):
    """A filter that also scans answers while they are streamed."""

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """Return the matches as `Filter.scan` does; `plain`, the text's `plain_bytes`, only makes it faster."""
        ...

    @property
    def window(self) -> int:
        """The most characters that one of its streams ever holds back."""
        ...

    def stream(self) -> Stream:
        """Return a stream for one text; offsets count from its first character."""
        ...


@runtime_checkable
class PromptDependent(Protocol):
    """A filter of answers that differs with the prompt."""

    def for_prompt(self, instructions: Iterable[str]) -> StreamFilter:
        """Return the filter for the answers to a prompt with these system and developer messages."""
        ...
