"""A text answer of Triton's, piece by piece, as token ids."""

from routing.transports.triton.settings import TextCodec

_REPLACEMENT = "�"


class Pieces:
    """The ids of one answer's text as it comes; `tokens` counts them.

    A server that sends all of the answer so far ends it with U+FFFD where a character's bytes are not complete: those
    are held back until they are, or until the end. One that sends what is new decodes each step by itself, so what it
    cuts is lost: its U+FFFD are passed on, and nothing here can tell them from those that the model wrote. A text that
    begins otherwise than what was sent goes on behind that.
    """

    __slots__ = ("_codec", "_cumulative", "_held", "_taken", "tokens")

    def __init__(self, codec: TextCodec, *, cumulative: bool) -> None:
        self._codec = codec
        self._cumulative = cumulative
        self._taken = ""
        self._held = ""
        self.tokens = 0

    def feed(self, text: str) -> list[int]:
        """The ids of what is new in the next piece, maybe none."""
        if not self._cumulative:
            return self._encoded(text)
        if not text.startswith(self._taken):
            # An empty last response, a stop word cut off, or another reading of the same tokens: what was sent stays.
            if len(text) <= len(self._taken):
                self._held = ""
                return []
            self._taken = text[: len(self._taken)]
        new = text[len(self._taken) :]
        whole = new.rstrip(_REPLACEMENT)
        self._held = new[len(whole) :]
        self._taken += whole
        return self._encoded(whole)

    def flush(self) -> list[int]:
        """The ids of what was held back, at the end."""
        held, self._held = self._held, ""
        return self._encoded(held)

    def _encoded(self, text: str) -> list[int]:
        if not text:
            return []
        ids = self._codec.encode(text, first=self.tokens == 0)
        self.tokens += len(ids)
        return ids
