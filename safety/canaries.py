"""Canaries: strings in a system prompt that must never appear in an answer; one that does shows a prompt leak."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from safety.filter import Stream
from safety.folding import fold
from safety.match import Match
from safety.prefilter import Signs
from safety.terms import WINDOW, TermFilter

LABEL: Final = "canary"
#: The most canaries of one request.
MOST: Final = 64
#: Punctuation that is cut off the end of a canary.
_AFTER: Final = ".,;:!?)]}>\"'"
_SHORTEST: Final = 8


class CanaryFilter:
    """A `StreamFilter` for fixed canaries; `for_prompt` gives one that knows those of a request's prompt too."""

    window: Final = WINDOW

    def __init__(self, tokens: Sequence[str], prefix: str | None = None) -> None:
        """Raises TermError for a token that is empty once folded, or too long."""
        self._tokens = tuple(tokens)
        self._terms = TermFilter(LABEL, tokens, words=False) if tokens else None
        self._words = None if prefix is None else re.compile(rf"(?<!\S)[\"'(\[<]?({re.escape(prefix)}\S{{1,{WINDOW}}})")

    @property
    def signs(self) -> Signs | None:
        """The fixed canaries; None if prompts may add others."""
        return None if self._words is not None or self._terms is None else self._terms.signs

    def for_prompt(self, instructions: Iterable[str]) -> "CanaryFilter":
        """Add the canaries found in a request's system and developer messages."""
        if self._words is None:
            return self
        found = {_shortened(word.rstrip(_AFTER)) for text in instructions for word in self._words.findall(text)}
        found = {word for word in found if len(word) >= _SHORTEST and fold(word).strip()}
        return CanaryFilter([*self._tokens, *sorted(found)[:MOST]]) if found else self

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        return self._terms.scan(text, plain) if self._terms is not None else []

    def stream(self) -> Stream:
        return self._terms.stream() if self._terms is not None else _EmptyStream()


def _shortened(word: str) -> str:
    """The longest prefix of a word that a TermFilter accepts."""
    while len(fold(word)) >= WINDOW:
        word = word[:-1]
    return word


class _EmptyStream:
    """The stream of a filter without terms."""

    def __init__(self) -> None:
        self.open = 0

    def feed(self, text: str) -> Sequence[Match]:
        self.open += len(text)
        return ()

    def finish(self) -> Sequence[Match]:
        return ()
