"""What a collector gets of a request: the tree, its times, its attributes."""

import asyncio
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from observability.outcome import Outcome
from observability.record import RequestRecord, TraceContext, Verdict
from observability.tracing.trace_sink import TraceSink
from tests.observability.tracing.collector import Collector, attributes_of, collector
from tests.observability.tracing.records import PARENT, SPAN, TRACE, WALL, record_of, sampled

STAGES = ["authenticate", "read and filter", "tokenize", "reserve limits", "wait for turn", "route"]


def spans_of(*records: RequestRecord, **options: Any) -> list[Span]:
    """As a collector gets them."""

    async def main(made: Collector) -> None:
        sink = TraceSink(made.endpoint, instance="w1", **options)
        sink.take(records)
        await sink.aclose()
        assert sink.counts() == {"telemetry_dropped_total": 0}

    with collector() as made:
        asyncio.run(main(made))
        return made.spans


def seconds(span: Span) -> tuple[float, float]:
    """Since the request's arrival."""
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    return round(start / 1e9 - WALL, 6), round(end / 1e9 - WALL, 6)


def by_name(spans: list[Span]) -> dict[str, Span]:
    found = {span.name: span for span in spans}
    assert len(found) == len(spans)
    return found


def test_the_tree_has_the_records_times() -> None:
    root, *rest = spans_of(sampled())
    assert (root.trace_id, root.span_id, root.parent_span_id) == (TRACE, SPAN, PARENT)
    assert (root.name, root.kind, root.trace_state) == ("chat mixtral", Span.SPAN_KIND_SERVER, "vendor=1")
    assert seconds(root) == (0.0, 1.25)
    assert all(span.trace_id == TRACE for span in rest)
    assert len({span.span_id for span in (root, *rest)}) == len(rest) + 1
    found = by_name(rest)
    assert [span.name for span in rest if span.parent_span_id == SPAN] == [*STAGES, "replica request", "write answer"]
    for at, name in enumerate(STAGES):
        assert seconds(found[name]) == (at / 1000, (at + 1) / 1000)
    replica = found["replica request"]
    assert (replica.kind, seconds(replica)) == (Span.SPAN_KIND_CLIENT, (0.006, 1.0))
    assert seconds(found["write answer"]) == (1.0, 1.25)
    engine = [span for span in rest if span.parent_span_id == replica.span_id]
    assert [(span.name, seconds(span)) for span in engine] == [
        ("engine queue", (0.119, 0.12)),
        ("engine prefill", (0.12, 0.2)),
        ("engine decode", (0.2, 1.0)),
    ]
    assert [event.name for event in replica.events] == ["first token"]
    assert round(replica.events[0].time_unix_nano / 1e9 - WALL, 6) == 0.1


def test_it_says_what_conventions_call_it() -> None:
    spans = by_name(spans_of(sampled(cached_tokens=4, predicted_tokens=6, reasoning_tokens=2, version="v3")))
    told = attributes_of(spans["chat mixtral"])
    assert told.pop("server.address")
    assert told.pop("gen_ai.response.time_to_first_chunk") == pytest.approx(0.1)
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "penstock",
        "gen_ai.request.model": "mixtral",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "mixtral",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "http.response.status_code": 200,
        "http.route": "/v1/chat/completions",
        "client.address": "192.0.2.1",
        "penstock.request.id": "req_1",
        "penstock.outcome": "ok",
        "penstock.tenant": "acme",
        "penstock.tier": "gold",
        "penstock.key.id": "key_1",
        "penstock.model.version": "v3",
    }
    assert attributes_of(spans["route"]) == {
        "penstock.pool": "wide",
        "penstock.replica": "wide/0",
        "penstock.route.policy": "auto",
        "penstock.route.reason": "least cost",
        "penstock.route.predicted_tokens": 6,
    }


async def test_the_resource_names_the_process() -> None:
    with collector() as made:
        sink = TraceSink(made.endpoint + "/v1/traces", instance="w1", headers={"X-Scope": "a"})
        sink.take([sampled()])
        await sink.aclose()
        assert made.resource["service.name"] == "penstock"
        assert made.resource["service.instance.id"] == "w1"
        assert made.paths == ["/v1/traces"]
        assert made.headers[0]["x-scope"] == "a"


@pytest.mark.parametrize("reached", range(6))
def test_who_fails_in_a_stage_has_none_after_it(reached: int) -> None:
    fields = ("identified", "screened", "encoded", "reserved", "admitted", "sent")
    missing: dict[str, Any] = dict.fromkeys(fields[reached:], 0.0) | {"first_token": 0.0, "last_token": 0.0}
    record = record_of(**missing, ended=100.5, outcome=Outcome.STORE_ERROR, status=503, code="store", detail="away")
    root, *rest = spans_of(record)
    assert [span.name for span in rest] == STAGES[: reached + 1]
    assert seconds(rest[-1]) == (reached / 1000, 0.5)
    for span in (root, rest[-1]):
        assert (span.status.code, span.status.message) == (2, "away")
    assert attributes_of(root)["error.type"] == "store"
    assert root.parent_span_id == b""


def test_a_replica_that_fails_has_the_fault() -> None:
    record = record_of(last_token=0.0, outcome=Outcome.REPLICA_ERROR, status=502, code="engine_error", retries=2)
    spans = by_name(spans_of(record))
    assert spans["replica request"].status.code == 2
    assert seconds(spans["replica request"]) == (0.006, 1.25)
    assert "write answer" not in spans


def test_a_client_at_fault_is_no_failure_of_ours() -> None:
    record = sampled(screened=0.0, outcome=Outcome.INVALID, status=400, code="invalid")
    root, *stages = spans_of(record)
    assert stages
    assert {span.status.code for span in (root, *stages)} == {0}
    assert attributes_of(root)["error.type"] == "invalid"


def test_what_moved_is_told_as_events() -> None:
    spans = by_name(spans_of(sampled(retries=1, migrations=2, hedges=3)))
    events = spans["replica request"].events
    assert [(event.name, attributes_of(event)) for event in events] == [
        ("retry", {"penstock.retry.count": 1}),
        ("hedge", {"penstock.hedge.count": 3}),
        ("first token", {}),
        ("migration", {"penstock.migration.count": 2}),
    ]


def test_filters_verdicts_are_events_of_where_they_were_given() -> None:
    verdicts = [Verdict("pii", "redact", "prompt", "email", 2), Verdict("terms", "block", "answer", "term", 1)]
    spans = by_name(spans_of(sampled(verdicts=verdicts)))
    (prompt,) = spans["read and filter"].events
    (answer,) = spans["chat mixtral"].events
    assert attributes_of(prompt) == {
        "penstock.filter.rule": "pii",
        "penstock.filter.action": "redact",
        "penstock.filter.label": "email",
        "penstock.filter.times": 2,
    }
    assert attributes_of(answer)["penstock.filter.rule"] == "terms"


def test_an_engine_whose_clock_runs_away_stays_within_its_request() -> None:
    spans = by_name(spans_of(sampled(engine_decode_us=10**12)))
    assert seconds(spans["engine decode"])[1] == 1.0
    assert seconds(spans["engine queue"])[0] == 0.006


def test_other_endpoints_have_no_more_than_there_is() -> None:
    record = RequestRecord("req_2", "models", 100.0, WALL, identified=100.005, ended=100.01)
    record.trace, record.span_id, record.sampled = TraceContext(TRACE, PARENT, 1, ""), SPAN, True
    root, stage = spans_of(record)
    assert (root.name, attributes_of(root)["http.route"]) == ("models", "/v1/models")
    assert stage.name == "authenticate"


def test_a_clock_that_was_set_back_makes_no_negative_span() -> None:
    (root, *_) = spans_of(sampled(ended=0.0))
    assert root.start_time_unix_nano <= root.end_time_unix_nano
