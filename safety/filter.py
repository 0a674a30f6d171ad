"""The seam of filters that look at text alone: what finds matches in a whole text, and in one that comes in pieces.

All of them are pure, keep no state between texts, take time in proportion to the text's length and never wait.
"""

from collections.abc import Sequence
from typing import Protocol

from safety.match import Match
from safety.prefilter import Prefiltered


class Filter(Protocol):
    """Finds matches in whole texts."""

    def scan(self, text: str) -> list[Match]:
        """The matches in order of their start, without overlaps."""
        ...


class Stream(Protocol):
    """Finds matches in one text that comes in pieces.

    However the text is cut, `merged` of all that `feed` and `finish` give is `merged` of what the filter's `scan` gives
    for the whole. Matches come in order, each as soon as nothing that follows could change it; a long one may come in
    parts that touch.
    """

    @property
    def open(self) -> int:
        """From this character of the text on nothing is decided: matches still to be told start there or after.

        All before it is decided, so the distance from here to the text's end is what must be held back.
        """
        ...

    def feed(self, text: str) -> Sequence[Match]:
        """The next piece, which may be empty; gives the matches that are certain now."""
        ...

    def finish(self) -> Sequence[Match]:
        """The text has ended; gives the rest of the matches, and `open` is the text's length."""
        ...


class StreamFilter(Filter, Prefiltered, Protocol):
    """A filter that can also look at answers as they are streamed."""

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """The same; `plain` is `plain_bytes` of the text, with which it is quicker, and finds the same."""
        ...

    @property
    def window(self) -> int:
        """The most characters that a stream of it ever holds back."""
        ...

    @property
    def batch(self) -> int:
        """Characters that had better be gathered for a stream of it; 1: looking at each token costs little."""
        ...

    def stream(self) -> Stream:
        """A stream for one text, which begins at its character 0."""
        ...
