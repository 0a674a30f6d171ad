"""Which requests are traced, decided at their start."""

import random
from collections.abc import Callable
from typing import Final

from observability.record import RequestRecord, TraceContext
from observability.tracing.trace_context import SAMPLED

_HALF: Final = 64
_RANDOM: Final = random.Random()


class HeadSampler:
    """Who comes with a context has decided; of the others a ratio is taken, by their trace id as OpenTelemetry does.

    A request that is not taken gets no ids here: should its end make it worth showing, nobody has been told any.
    """

    def __init__(self, ratio: float | None, bits: Callable[[int], int] = _RANDOM.getrandbits) -> None:
        """No `ratio`: nothing is recorded here, and contexts pass through. `bits` gives so many random ones."""
        self._bits = bits
        self._records = ratio is not None
        self._bound = round((ratio or 0.0) * (1 << _HALF))

    def start(self, record: RequestRecord, parent: TraceContext | None = None) -> None:
        """Fill in `trace`, `span_id` and `sampled`."""
        if parent is not None:
            record.trace = parent
            if parent.flags & SAMPLED:
                record.sampled = True
                if self._records:
                    record.span_id = self._span_id()
            return
        low = self._bits(_HALF)
        if low < self._bound:
            high = self._bits(_HALF) or 1
            record.trace = TraceContext((high << _HALF | low).to_bytes(16, "big"), b"", SAMPLED, "")
            record.span_id = self._span_id()
            record.sampled = True

    def _span_id(self) -> bytes:
        return (self._bits(_HALF) or 1).to_bytes(8, "big")
