"""Who is traced from the start."""

import random

import pytest
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from observability.record import TraceContext
from observability.tracing.sampling import HeadSampler
from tests.observability.tracing.records import PARENT, SPAN, TRACE, record_of


def context(flags: int) -> TraceContext:
    return TraceContext(TRACE, PARENT, flags, "a=1")


def test_a_client_that_sends_a_context_has_decided() -> None:
    for ratio in (0.0, 0.01, 1.0):
        record = record_of()
        HeadSampler(ratio).start(record, context(1))
        assert (record.trace, record.sampled, len(record.span_id)) == (context(1), True, 8)
        record = record_of()
        HeadSampler(ratio).start(record, context(0))
        assert (record.trace, record.sampled, record.span_id) == (context(0), False, b"")


def test_of_the_others_a_part_is_taken_as_the_sdk_takes_it() -> None:
    sampler, theirs = HeadSampler(0.25, random.Random(1).getrandbits), TraceIdRatioBased(0.25)
    taken = 0
    for _ in range(4000):
        record = record_of()
        sampler.start(record)
        if not record.sampled:
            assert (record.trace, record.span_id) == (None, b"")
            continue
        taken += 1
        assert record.trace is not None
        assert (record.trace.parent_id, record.trace.flags, len(record.trace.trace_id)) == (b"", 1, 16)
        trace_id = int.from_bytes(record.trace.trace_id, "big")
        assert theirs.should_sample(None, trace_id, "").decision is Decision.RECORD_AND_SAMPLE
    assert 900 < taken < 1100


@pytest.mark.parametrize(("ratio", "taken"), [(0.0, False), (1.0, True)])
def test_none_and_all(ratio: float, taken: bool) -> None:
    for bits in (lambda _: 0, lambda n: (1 << n) - 1):
        record = record_of()
        HeadSampler(ratio, bits).start(record)
        assert record.sampled is taken
        assert taken is (record.trace is not None and any(record.trace.trace_id) and any(record.span_id))


def test_where_nothing_is_recorded_contexts_pass_through() -> None:
    sampler = HeadSampler(None)
    record = record_of()
    sampler.start(record)
    assert (record.trace, record.sampled) == (None, False)
    sampler.start(record, context(1))
    assert (record.trace, record.sampled, record.span_id) == (context(1), True, b"")


def test_ids_are_what_they_are_told() -> None:
    record = record_of()
    HeadSampler(0.0, lambda _: int.from_bytes(SPAN, "big")).start(record, context(1))
    assert record.span_id == SPAN
