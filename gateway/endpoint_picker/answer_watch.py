"""Pure: what a picker learns of an answer whose bytes pass by."""

from typing import Final

from protos.token_counts import TokenCounts
from routing.transports.openai.upstream_usage import usage_in_tail
from routing.transports.openai.usage_forms import counts_of

#: Bytes at an answer's end in which its usage stands.
_TAIL_BYTES: Final = 8192


class AnswerWatch:
    """Counts the events of an answer, and remembers its end. Its memory is bounded, whatever the answer's length."""

    def __init__(self) -> None:
        #: Events so far; about as many tokens, where the engine does not count them itself.
        self.events = 0
        self._tail = b""

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        self.events += piece.count(b"data:")
        self._tail = piece[-_TAIL_BYTES:] if len(piece) >= _TAIL_BYTES else (self._tail + piece)[-_TAIL_BYTES:]

    def counts(self) -> TokenCounts | None:
        """Return the engine's own counts; None: it tells none, or not before the answer's end."""
        return counts_of(usage_in_tail(self._tail))
