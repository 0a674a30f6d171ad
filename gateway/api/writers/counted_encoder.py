"""Put the counts so far into every chunk of a stream, as `stream_options.continuous_usage_stats` asks (vLLM's)."""

from collections.abc import Callable, Sequence
from typing import Final

from orjson import dumps

from gateway.api.writers.api_adapter import Counts
from gateway.api.writers.chunk_encoder import usage_fields
from gateway.api.writers.parsed_encoder import StreamEncoder
from gateway.text.parsing.delta import Delta
from protos.errors import PenstockError
from protos.types import FinishReason
from routing.contracts.transport import Event

#: How each chunk ends where the counts come at the end. Text cannot hold it: JSON escapes its quotes.
_NO_COUNTS: Final = b',"usage":null}\n\n'


class CountedEncoder:
    """The `StreamEncoder` of another one, which writes chunks with `usage: null`."""

    def __init__(self, encoder: StreamEncoder, counts: Callable[[], Counts]) -> None:
        """`counts` gives the tokens so far."""
        self._encoder = encoder
        self._counts = counts

    def opening(self) -> bytes:
        return self._counted(self._encoder.opening())

    def encode(self, events: list[Event]) -> bytes:
        # One by one: each chunk has the counts of its own moment.
        return b"".join([self._counted(self._encoder.encode([event])) for event in events])

    def render(self, index: int, deltas: Sequence[Delta]) -> bytes:
        return self._counted(self._encoder.render(index, deltas))

    def finish(self, index: int, reason: FinishReason) -> bytes:
        return self._counted(self._encoder.finish(index, reason))

    def closing(self) -> bytes:
        return self._encoder.closing()

    def broken(self, error: PenstockError) -> bytes:
        return self._encoder.broken(error)

    def _counted(self, chunks: bytes) -> bytes:
        if not chunks:
            return chunks
        return chunks.replace(_NO_COUNTS, b',"usage":%b}\n\n' % dumps(usage_fields(self._counts())))
