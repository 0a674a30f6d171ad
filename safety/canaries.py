"""Canaries: strings in a system prompt that must never appear in an answer; one that does gives the prompt away."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from safety.filter import Stream
from safety.folding import fold
from safety.match import Match
from safety.prefilter import Signs
from safety.terms import WINDOW, TermFilter

LABEL: Final = "canary"
#: Canaries of one request.
MOST: Final = 64
#: What may stand at the end of a word and does not belong to it.
_AFTER: Final = ".,;:!?)]}>\"'"
_SHORTEST: Final = 8


class CanaryFilter:
    """A `StreamFilter` for fixed canaries; `for_prompt` gives one that knows those of a request's prompt too."""

    window: Final = WINDOW
    batch: Final = 1

    def __init__(self, tokens: Sequence[str], prefix: str | None = None) -> None:
        """Raises TermError for a token that cannot be looked for."""
        self._tokens = tuple(tokens)
        self._terms = TermFilter(LABEL, tokens, words=False) if tokens else None
        self._words = None if prefix is None else re.compile(rf"(?<!\S)[\"'(\[<]?({re.escape(prefix)}\S{{1,{WINDOW}}})")

    @property
    def signs(self) -> Signs | None:
        """The fixed canaries; None: prompts bring others."""
        return None if self._words is not None or self._terms is None else self._terms.signs

    def for_prompt(self, instructions: Iterable[str]) -> "CanaryFilter":
        """With the canaries that stand in system and developer messages."""
        if self._words is None:
            return self
        found = {_fitting(word.rstrip(_AFTER)) for text in instructions for word in self._words.findall(text)}
        found = {word for word in found if len(word) >= _SHORTEST and fold(word).strip()}
        return CanaryFilter([*self._tokens, *sorted(found)[:MOST]]) if found else self

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """The canaries in a whole text."""
        return self._terms.scan(text, plain) if self._terms is not None else []

    def stream(self) -> Stream:
        """A stream for one text."""
        return self._terms.stream() if self._terms is not None else _Nothing()


def _fitting(word: str) -> str:
    """As much of a word as can be looked for."""
    while len(fold(word)) >= WINDOW:
        word = word[:-1]
    return word


class _Nothing:
    """The stream of a filter that looks for nothing."""

    def __init__(self) -> None:
        self.open = 0

    def feed(self, text: str) -> Sequence[Match]:
        self.open += len(text)
        return ()

    def finish(self) -> Sequence[Match]:
        return ()
