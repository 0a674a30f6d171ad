"""Decide at a request's start whether it is traced."""

import random
from collections.abc import Callable
from typing import Final

from observability.record import RequestRecord, TraceContext
from observability.tracing.trace_context import SAMPLED

_HALF: Final = 64
_RANDOM: Final = random.Random()


class HeadSampler:
    """Follow the decision of a received trace context; of other requests sample a ratio by trace id, as
    OpenTelemetry does.

    A request that is not sampled gets no ids here, so none are sent on; if its end makes it worth showing, it gets new
    ones.
    """

    def __init__(self, ratio: float | None, bits: Callable[[int], int] = _RANDOM.getrandbits) -> None:
        """`ratio` None: nothing is recorded here, and contexts pass through. `bits` returns random bits."""
        self._bits = bits
        self._records = ratio is not None
        self._bound = round((ratio or 0.0) * (1 << _HALF))
        #: Whether requests without a trace context are sampled at all.
        self.traces = self._bound > 0

    def start(self, record: RequestRecord, parent: TraceContext | None = None) -> None:
        """Set `trace`, `span_id` and `sampled` of a record."""
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
