"""Read a request's trace context from its headers."""

from collections.abc import Iterable, Mapping
from typing import Final

from observability.record import RequestRecord
from observability.tracing.sampling import HeadSampler
from observability.tracing.trace_context import parse

TRACE_PARENT: Final = b"traceparent"
_STATE = b"tracestate"


def begin_trace(
    record: RequestRecord,
    sampler: HeadSampler,
    headers: Mapping[bytes, bytes],
    sent: Iterable[tuple[bytes, bytes]],
) -> None:
    """Fill in the record's `trace`, `span_id` and `sampled`.

    `headers` are `sent` by name; `sent` is searched only where there is a context, which must occur once.
    """
    if TRACE_PARENT not in headers:
        sampler.start(record)
        return
    sent = list(sent)
    parents = [value for name, value in sent if name == TRACE_PARENT]
    states = [value for name, value in sent if name == _STATE]
    sampler.start(record, parse(parents[0], states) if len(parents) == 1 else None)
