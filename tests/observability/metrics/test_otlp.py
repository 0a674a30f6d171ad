"""Export to a collector, by what arrives there."""

import contextlib
import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2

from observability.exposition import Family
from observability.metrics import otlp
from observability.metrics.genai import genai_families
from observability.metrics.merge import Merged
from observability.metrics.otlp import Gathered, MetricsExporter, metrics_data, metrics_url
from tests.observability.metrics.records import numbers_of, placed, record, sink_of


class Collector:
    """Answers with `status`; while `held` is not set, not at all."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.paths: set[str] = set()
        self.keys: set[str | None] = set()
        self.status = 200
        self.held = threading.Event()
        self.held.set()
        self.asked = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.asked += 1
                collector.held.wait(20)
                if collector.status == 200:
                    collector.paths.add(self.path)
                    collector.keys.add(self.headers.get("x-key"))
                    collector.requests.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body)))
                with contextlib.suppress(OSError):
                    self.send_response(collector.status)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.held.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@contextlib.contextmanager
def exporting(collector: Collector, gather: Callable[[], Gathered]) -> Iterator[MetricsExporter]:
    exporter = MetricsExporter(gather, collector.endpoint, {"x-key": "k"}, 0.01)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.close()
        collector.held.set()
        exporter._thread.join(20)
        assert not exporter._thread.is_alive()


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def gathered() -> Gathered:
    sink = sink_of()
    sink.take([record(), record(tenant='a"b\nc\ud800', pool="narrow")])
    families = Merged(numbers_of(placed(sink))).families()
    gauge = Family("penstock_replica_up", "gauge", "Up.", [({"model": "m", "pool": "p", "replica": "p/0"}, 1)])
    return Gathered([*families, *genai_families(families), gauge], 1000.0)


def by_name(request: ExportMetricsServiceRequest) -> dict[str, metrics_pb2.Metric]:
    (resource,) = request.resource_metrics
    who = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (who["service.name"], who["service.instance.id"]) == ("penstock", socket.gethostname())
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def attributes(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_what_arrives(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    with exporting(collector, gathered):
        wait(lambda: len(collector.requests) > 1)
    metrics = by_name(collector.requests[0])
    requests = metrics["penstock_requests_total"]
    assert requests.unit == "{request}"
    assert requests.sum.is_monotonic
    assert requests.sum.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    points = {attributes(point)["tenant"]: point for point in requests.sum.data_points}
    assert set(points) == {"acme", 'a"b\\nc\\ud800'}
    assert points["acme"].as_int == 1
    assert points["acme"].start_time_unix_nano == 1000 * 10**9
    (up,) = metrics["penstock_replica_up"].gauge.data_points
    assert (up.as_int, attributes(up)["replica"]) == (1, "p/0")
    duration = metrics["gen_ai.server.request.duration"]
    (point,) = duration.histogram.data_points
    assert duration.unit == "s"
    assert attributes(point) == {
        "gen_ai.request.model": "m",
        "gen_ai.provider.name": "penstock",
        "gen_ai.operation.name": "inference",
    }
    assert (point.count, sum(point.bucket_counts), point.sum) == (2, 2, 4.5)
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert not point.HasField("min")
    usage = metrics["gen_ai.client.token.usage"]
    assert usage.unit == "{token}"
    assert {attributes(each)["gen_ai.token.type"] for each in usage.histogram.data_points} == {"input", "output"}
    assert collector.paths == {"/v1/metrics"}
    assert collector.keys == {"k"}
    assert not caplog.records


def test_a_collector_that_fails_is_spoken_of_once(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.status = 400
    with exporting(collector, gathered) as exporter:
        wait(lambda: exporter.failures > 3)
        collector.status = 200
        wait(lambda: len(collector.requests) > 2)
    lines = [line.getMessage() for line in caplog.records]
    assert len(lines) == 2
    assert "cannot be sent" in lines[0]
    assert lines[0].endswith("which is tried again: status 400 Bad Request")
    assert "again" in lines[1]


def test_a_collector_that_says_nothing(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(otlp, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(otlp, "CLOSE_SECONDS", 0.01)
    collector.held.clear()
    with exporting(collector, gathered) as exporter:
        wait(lambda: exporter.failures > 1)
    assert len(caplog.records) == 1


def test_numbers_that_cannot_be_had(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Gathered:
        raise TimeoutError

    with exporting(collector, broken) as exporter:
        wait(lambda: exporter.failures > 2)
    assert ["TimeoutError" in line.getMessage() for line in caplog.records] == [True]
    assert not collector.asked


def test_one_that_never_started_can_be_closed() -> None:
    MetricsExporter(gathered, "http://127.0.0.1:9", {}, 1.0).close()
    assert not logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").filters


def test_a_clock_that_was_set_back() -> None:
    data = metrics_data(gathered(), 7)
    metric = data.resource_metrics[0].scope_metrics[0].metrics[0]
    point = metric.data.data_points[0]
    assert (point.start_time_unix_nano, point.time_unix_nano) == (7, 7)


@pytest.mark.parametrize("endpoint", ["http://c:4318", "http://c:4318/", "http://c:4318/v1/metrics"])
def test_where_metrics_go(endpoint: str) -> None:
    assert metrics_url(endpoint) == "http://c:4318/v1/metrics"
