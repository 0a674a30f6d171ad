"""The seam between a model's text and its meaning."""

from typing import Protocol

from gateway.text.parsing.delta import Delta


class OutputParser(Protocol):
    """Splits one answer into deltas as it arrives. However the text is cut, the deltas of each kind join to the same.

    No text makes it raise, and what is not well formed comes back as `Text`. It holds back only what may still become
    something else than text, and its work is linear in the length of the text.
    """

    @property
    def thinking(self) -> bool:
        """Whether the text that follows is reasoning, as far as known."""
        ...

    def flow(self) -> Delta | None:
        """The delta, with an empty text, that every calm piece from here on becomes; None: that cannot be said.

        Its text is the piece, and the parser's state stays the same, so that the piece need not be fed.
        `gateway.text.tokens.detokenizer.is_calm` defines calm pieces.
        """
        ...

    def feed(self, text: str) -> list[Delta]:
        """Read the next piece of the answer; returns what is known of it now."""
        ...

    def finish(self) -> list[Delta]:
        """End the answer; returns what was held back."""
        ...
