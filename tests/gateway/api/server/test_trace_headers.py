"""From the headers of a request, as a server gives them, to its place in a trace."""

from gateway.api.server.trace_headers import begin_trace
from observability.record import RequestRecord
from observability.tracing.sampling import HeadSampler
from tests.observability.tracing.records import PARENT, TRACE, record_of

GOOD = f"00-{TRACE.hex()}-{PARENT.hex()}-01".encode()
BAD = b"00-nonsense"


def begun(*headers: tuple[bytes, bytes], ratio: float | None = 0.0) -> RequestRecord:
    record = record_of()
    begin_trace(record, HeadSampler(ratio), dict(headers), headers)
    return record


def test_a_context_is_taken_over() -> None:
    record = begun((b"host", b"h"), (b"traceparent", GOOD), (b"tracestate", b"a=1"), (b"tracestate", b"b=2"))
    assert record.trace is not None
    assert (record.trace.trace_id, record.trace.parent_id, record.trace.state) == (TRACE, PARENT, "a=1,b=2")
    assert record.sampled
    assert len(record.span_id) == 8


def test_without_one_or_with_a_bad_one_the_trace_begins_here() -> None:
    for headers in ([], [(b"traceparent", BAD)], [(b"traceparent", GOOD)] * 2, [(b"tracestate", b"a=1")]):
        assert begun(*headers).trace is None
        record = begun(*headers, ratio=1.0)
        assert record.trace is not None
        assert (record.trace.parent_id, record.trace.state) == (b"", "")
        assert record.trace.trace_id != TRACE


def test_a_bad_state_leaves_the_parent() -> None:
    record = begun((b"traceparent", GOOD), (b"tracestate", b"nonsense"))
    assert record.trace is not None
    assert (record.trace.trace_id, record.trace.state) == (TRACE, "")
