"""The contract of the sink of traces: what it takes, what it never does, and what it says of a collector's faults."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from observability.outcome import FAILED, Outcome
from observability.tracing import trace_sink as module
from observability.tracing.export import RECOVERY_SECONDS, LoggedExporter
from observability.tracing.trace_sink import LATE_PER_SECOND, MOST_AT_ONCE, TraceSink
from tests.loops import until
from tests.observability.tracing.collector import collector
from tests.observability.tracing.records import record_of, sampled


class Keeps(SpanExporter):
    """Keeps what it gets; refuses while `broken`, and is not done before `go`."""

    def __init__(self, *, broken: bool = False) -> None:
        self.names: list[str] = []
        self.broken = broken
        self.go = threading.Event()
        self.go.set()
        self.asked = threading.Event()
        self.closed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.go.wait(30)
        if self.broken:
            logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").error("loud %s", "words")
            return SpanExportResult.FAILURE
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 10
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        next(iter(left)).join(0.1)
    assert not left


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_it_takes_the_sampled_the_failed_and_the_slow() -> None:
    exporter = Keeps()
    sink = TraceSink("http://h", instance="w", exporter=exporter, slow_seconds=5.0)
    sink.take([record_of()])
    sink.take([record_of(endpoint="a", outcome=outcome, status=500, model="") for outcome in FAILED])
    others = set(Outcome) - FAILED
    sink.take([record_of(endpoint="b", outcome=outcome) for outcome in others])
    sink.take([sampled(endpoint="c", model="")])
    sink.take([record_of(endpoint="d", model="", first_token=105.0, last_token=106.0, ended=106.0)])
    # A long answer is not slow, an answer that does not begin is.
    sink.take([record_of(endpoint="e", model="", last_token=200.0, ended=200.0)])
    sink.take([record_of(endpoint="f", model="", first_token=0.0, last_token=0.0, ended=105.0)])
    await sink.aclose()
    roots = [name for name in exporter.names if len(name) == 1]
    assert roots == ["a"] * len(FAILED) + ["c", "d", "f"]


async def test_errors_and_slow_ones_can_be_left_alone() -> None:
    exporter = Keeps()
    sink = TraceSink("http://h", instance="w", exporter=exporter, slow_seconds=0, errors=False)
    sink.take([record_of(outcome=Outcome.TIMEOUT), record_of(first_token=900.0, ended=901.0)])
    await sink.aclose()
    assert exporter.names == []


async def test_an_outage_does_not_make_a_trace_of_everything() -> None:
    exporter, clock = Keeps(), Clock()
    sink = TraceSink("http://h", instance="w", exporter=exporter, queue=100_000, clock=clock)
    failed = record_of(outcome=Outcome.SHED, status=503)
    sink.take([failed] * 500 + [sampled()] * 3)
    clock.now = 1.0
    sink.take([failed] * 5)
    await sink.aclose()
    # Who was sampled is not crowded out.
    assert exporter.names.count("chat mixtral") == LATE_PER_SECOND + 3 + 5
    assert sink.counts() == {"telemetry_dropped_total": 500 - LATE_PER_SECOND}


async def test_nobody_without_a_key_decides_what_is_traced() -> None:
    exporter = Keeps()
    sink = TraceSink("http://h", instance="w", exporter=exporter)
    sink.take([sampled(identified=0.0, outcome=Outcome.DENIED, status=401)])
    await sink.aclose()
    assert exporter.names == []
    assert sink.counts() == {"telemetry_dropped_total": 0}


async def test_clients_that_want_everything_traced_do_not_hold_up_the_loop() -> None:
    exporter = Keeps()
    sink = TraceSink("http://h", instance="w", exporter=exporter, queue=100_000)
    sink.take([sampled()] * 500)
    await sink.aclose()
    assert exporter.names.count("chat mixtral") == MOST_AT_ONCE
    assert sink.counts() == {"telemetry_dropped_total": 500 - MOST_AT_ONCE}


async def test_a_collector_that_takes_nothing_costs_traces_and_no_time(caplog: pytest.LogCaptureFixture) -> None:
    exporter, clock = Keeps(), Clock()
    exporter.go.clear()
    sink = TraceSink("http://h", instance="w", exporter=exporter, queue=64, clock=clock)
    for _ in range(20):
        sink.take([sampled()] * 10)
    assert exporter.asked.wait(10)
    dropped = sink.counts()["telemetry_dropped_total"]
    # One batch is with the exporter, the queue is full of whole requests, and the rest is gone.
    assert 200 - 2 * 64 // 12 <= dropped < 200
    exporter.go.set()
    await sink.aclose()
    assert exporter.names.count("chat mixtral") == 200 - dropped
    assert len(exporter.names) == 12 * (200 - dropped)
    sink.take([sampled()])
    assert sink.counts()["telemetry_dropped_total"] == dropped + 1
    assert said(caplog) == ["the collector takes traces more slowly than they come; some are lost"]


async def test_a_full_queue_is_said_again_after_a_long_time(caplog: pytest.LogCaptureFixture) -> None:
    exporter, clock = Keeps(), Clock()
    exporter.go.clear()
    sink = TraceSink("http://h", instance="w", exporter=exporter, queue=64, clock=clock)
    for clock.now in (0.0, 500.0, 1000.0, 1601.0):
        sink.take([sampled()] * 30)
    exporter.go.set()
    await sink.aclose()
    assert len(said(caplog)) == 2


def test_a_collector_that_fails_is_said_once_and_once_that_it_works() -> None:
    exporter, clock = Keeps(broken=True), Clock()
    told = LoggedExporter(exporter, "http://h/v1/traces", clock=clock)
    span = ReadableSpan("x")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        for _ in range(50):
            clock.now += 1
            assert told.export([span]) is SpanExportResult.FAILURE
        # One that fails now and then is not said to work in between.
        for exporter.broken in (False, True, False):
            clock.now += 1
            told.export([span])
        clock.now += RECOVERY_SECONDS
        told.export([span])
    finally:
        told.shutdown()
        root.removeHandler(handler)
        root.setLevel(level)
    assert lines == [
        "traces cannot be sent to http://h/v1/traces and are lost until they can: loud words",
        "traces go to http://h/v1/traces again; those of 0 requests were lost",
    ]


async def test_a_collector_that_is_not_there(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)

    with collector() as gone:
        endpoint = gone.endpoint
    sink = TraceSink(endpoint, instance="w")
    sink.take([sampled()] * 5)
    await sink.aclose()
    # The thread is in its last attempt, which ends soon.
    await until(lambda: sink.counts()["telemetry_dropped_total"] == 5)
    lines = said(caplog)
    assert len(lines) == 1
    assert not any("Traceback" in line for line in lines)


async def test_why_a_collector_takes_nothing_is_said_with_its_address(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("observability.tracing.export.TIMEOUT_SECONDS", 0.7)
    monkeypatch.setattr("observability.tracing.trace_sink._DELAY_MS", 10)
    with collector() as there:
        there.status = 401
        sink = TraceSink(there.endpoint, instance="w")
        sink.take([sampled()])
        await until(lambda: said(caplog))
    await until(lambda: sink.counts()["telemetry_dropped_total"] == 1)
    sink.take([sampled()])
    await until(lambda: len(said(caplog)) == 2)
    await sink.aclose()
    begin = f"traces cannot be sent to {there.endpoint}/v1/traces and are lost until they can: "
    assert said(caplog) == [f"{begin}status 401 Unauthorized", f"{begin}connection refused"]


async def test_a_collector_that_hangs_holds_up_no_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(module, "_DELAY_MS", 10)

    with collector() as made:
        made.held.clear()
        sink = TraceSink(made.endpoint, instance="w")
        sink.take([sampled()])
        await until(made.came.is_set)
        await sink.aclose()
        await sink.aclose()
    (line,) = said(caplog)
    assert "did not take the last traces in time" in line


async def test_a_collector_that_refuses(caplog: pytest.LogCaptureFixture) -> None:
    with collector() as made:
        made.status = 400
        sink = TraceSink(made.endpoint, instance="w")
        sink.take([sampled()] * 3)
        await sink.aclose()
        assert sink.counts() == {"telemetry_dropped_total": 3}
    (line,) = said(caplog)
    assert "are lost until they can" in line
    assert "400" in line


async def test_a_record_that_cannot_be_shown_costs_itself_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Keeps()
    sink = TraceSink("http://h", instance="w", exporter=exporter)
    broken = sampled()
    broken.verdicts = [None]  # type: ignore[list-item]
    sink.take([broken, sampled()])
    await sink.aclose()
    assert exporter.names.count("chat mixtral") == 1
    assert sink.counts() == {"telemetry_dropped_total": 1}
    assert said(caplog) == ["request req_1 has no spans"]
