"""Encodes the pieces of Triton's text answers to token ids."""

from routing.transports.triton.settings import TextCodec

_REPLACEMENT = "�"


class Pieces:
    """Encodes one answer's text as it comes; `tokens` counts the ids.

    A cumulative server ends the text so far with U+FFFD where a character's bytes are incomplete: these are held back
    until they are complete, or until the end. An incremental server decodes each step by itself, so a cut character is
    lost: its U+FFFD are passed on, since they cannot be told from those that the model wrote. Where a cumulative text
    does not begin with what was sent, only the text beyond that length is sent.
    """

    __slots__ = ("_codec", "_cumulative", "_held", "_taken", "tokens")

    def __init__(self, codec: TextCodec, *, cumulative: bool) -> None:
        self._codec = codec
        self._cumulative = cumulative
        self._taken = ""
        self._held = ""
        self.tokens = 0

    def feed(self, text: str) -> list[int]:
        """Return the ids of what is new in the next piece, maybe none."""
        if not self._cumulative:
            return self._encoded(text)
        if not text.startswith(self._taken):
            # An empty last response, a removed stop word, or another decoding of the same tokens: what was sent stays.
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
        """Return the ids of what was held back, at the end."""
        held, self._held = self._held, ""
        return self._encoded(held)

    def _encoded(self, text: str) -> list[int]:
        if not text:
            return []
        ids = self._codec.encode(text, first=self.tokens == 0)
        self.tokens += len(ids)
        return ids
