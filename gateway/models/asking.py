"""The seam through which a model's versions ask about a request what only its API knows."""

from typing import Protocol


class Asking(Protocol):
    """Whoever asks for a generation."""

    def header(self, name: bytes) -> bytes | None:
        """Return a header's value, by its name in lower case; None where the request does not have it."""
        ...

    def split_key(self, by: str, header: str) -> bytes:
        """Return what the request has in common with others of its `user` or `conversation`, or with those of one value
        of the `header`, whose name is in lower case. Empty: nothing, or it is the `tenant`.
        """
        ...
