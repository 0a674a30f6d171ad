"""The seam between a model's text and what it means."""

from typing import Protocol

from gateway.text.parsing.delta import Delta


class OutputParser(Protocol):
    """Takes one answer apart as it arrives. However the text is cut, the pieces of each kind join to the same.

    No text makes it raise, and what is not well formed comes back as `Text`. It holds back only what may still become
    something else than text, and its work is linear in the length of the text.
    """

    @property
    def thinking(self) -> bool:
        """Whether what comes next is a thought, as far as is known."""
        ...

    def flow(self) -> Delta | None:
        """What kind of delta, with an empty text, comes of every calm piece from here on; None: that cannot be said.

        Such a delta has that very text, and the parser stays as it is, so that the piece need not be fed.
        `gateway.text.tokens.detokenizer.is_calm` says which are calm.
        """
        ...

    def feed(self, text: str) -> list[Delta]:
        """The next piece of the answer; gives what is known of it now."""
        ...

    def finish(self) -> list[Delta]:
        """The answer has ended; gives what was held back."""
        ...
