"""Export all metrics to an OpenTelemetry collector at an interval, in a thread of its own.

The numbers are summed over processes, which the SDK's instruments cannot do; so its data is built here, and its
exporter
sends it.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from observability.export_reasons import LastMessage, NotedSession, SaidReasons
from observability.exposition import Family
from observability.metrics.declarations import BY_NAME
from observability.metrics.genai import ATTRIBUTES, NAMES
from observability.tracing.spans import process_resource

log = logging.getLogger(__name__)

SERVICE: Final = "penstock"
#: Seconds that one export may take, its retries included, and that closing waits for an export.
TIMEOUT_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
#: Attributes that the conventions require of each of their metrics. Requests of all endpoints are in one.
_GENAI_CONSTANT: Final = {"gen_ai.provider.name": SERVICE, "gen_ai.operation.name": "inference"}
_SDK_LOGGER: Final = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class Gathered(NamedTuple):
    """All families, and the start of their counts, in seconds since 1970."""

    families: list[Family]
    started: float


class MetricsExporter:
    """Export a gateway's metrics, however many workers it has. A slow or absent collector costs nothing else."""

    def __init__(
        self, gather: Callable[[], Gathered], endpoint: str, headers: Mapping[str, str], interval_seconds: float
    ) -> None:
        """`gather` is called in the thread; its exceptions do not end the export."""
        self._gather = gather
        self._endpoint = metrics_url(endpoint)
        self._headers = dict(headers)
        self._interval = interval_seconds
        self._ended = threading.Event()
        self._exporter: OTLPMetricExporter | None = None
        # A daemon: nothing can be done about a collector that hangs while the process ends.
        self._thread = threading.Thread(target=self._run, name="metrics export", daemon=True)
        self._message = LastMessage()
        self._session = NotedSession()
        self._said = SaidReasons()
        self._failing = False
        #: Failed exports.
        self.failures = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop without exporting the numbers of the last moments."""
        self._ended.set()
        if self._exporter is not None:
            self._exporter.shutdown()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        logging.getLogger(_SDK_LOGGER).removeFilter(self._message)

    def _run(self) -> None:
        logging.getLogger(_SDK_LOGGER).addFilter(self._message)
        self._exporter = OTLPMetricExporter(
            endpoint=self._endpoint,
            headers=self._headers,
            timeout=TIMEOUT_SECONDS,
            compression=Compression.Gzip,
            session=self._session,
        )
        while not self._ended.wait(self._interval):
            self._message.last = self._session.problem = ""
            try:
                sent = self._exporter.export(metrics_data(self._gather(), time.time_ns())) is MetricExportResult.SUCCESS
            except Exception as error:
                sent, self._message.last = False, f"{type(error).__name__}"
            if not self._ended.is_set():
                self._log_result(sent)

    def _log_result(self, sent: bool) -> None:
        self.failures += not sent
        if not sent:
            reason = self._session.problem or self._message.last or "it failed"
            if self._said.is_new(reason):
                log.warning("metrics cannot be sent to %s, which is tried again: %s", self._endpoint, reason)
        elif self._failing:
            self._said.clear()
            log.warning("metrics go to %s again", self._endpoint)
        self._failing = not sent


def metrics_url(endpoint: str) -> str:
    """Return the URL for metrics of a collector's address: OTLP's own path is appended unless it is there."""
    base = endpoint.rstrip("/")
    return base if base.endswith("/v1/metrics") else f"{base}/v1/metrics"


def metrics_data(gathered: Gathered, now_ns: int) -> MetricsData:
    """Build the SDK's form of all families, at a moment in nanoseconds since 1970."""
    # The start must not be later than the end after the clock was set back.
    start_ns = min(int(gathered.started * 1e9) or now_ns, now_ns)
    metrics = [_metric(family, start_ns, now_ns) for family in gathered.families]
    scope = ScopeMetrics(InstrumentationScope(SERVICE), metrics, "")
    return MetricsData([ResourceMetrics(process_resource(socket.gethostname()), [scope], "")])


def _metric(family: Family, start_ns: int, now_ns: int) -> Metric:
    declared = BY_NAME.get(family.name)
    if declared is not None:
        name, unit, rename, constant = family.name, declared.unit, dict[str, str](), dict[str, str]()
    else:
        name, unit = NAMES[family.name]
        rename, constant = ATTRIBUTES, _GENAI_CONSTANT

    def attributes(labels: Mapping[str, str]) -> dict[str, str]:
        return constant | {rename.get(label, label): value for label, value in labels.items()}

    data: Gauge | Histogram | Sum
    if family.kind == "histogram":
        data = Histogram(
            [
                HistogramDataPoint(
                    attributes=attributes(labels),
                    start_time_unix_nano=start_ns,
                    time_unix_nano=now_ns,
                    count=sum(counts),
                    sum=total,
                    bucket_counts=counts,
                    explicit_bounds=family.bounds,
                    # Minimum and maximum are optional, and not known.
                    min=None,  # type: ignore[arg-type]
                    max=None,  # type: ignore[arg-type]
                )
                for labels, counts, total in family.observed
            ],
            _CUMULATIVE,
        )
    else:
        points = [NumberDataPoint(attributes(labels), start_ns, now_ns, value) for labels, value in family.samples]
        data = Gauge(points) if family.kind == "gauge" else Sum(points, _CUMULATIVE, is_monotonic=True)
    return Metric(name, family.help, unit, data)
