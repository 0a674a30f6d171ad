"""Wrap the SDK's span exporter: log its failures once and count lost spans."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from observability.export_reasons import LastMessage, NotedSession, SaidReasons

log = logging.getLogger(__name__)

#: Seconds that one export may take, its retries included.
TIMEOUT_SECONDS: Final = 5.0
#: Seconds after a failure from which on a successful export means that the collector works again.
RECOVERY_SECONDS: Final = 5.0
_SDK_LOGGER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


class LoggedExporter(SpanExporter):
    """Wrap an exporter; log each reason for which it fails once, and once when it works again.

    `taken` counts spans that have left the processor's queue, `lost` requests whose spans reached no collector. Both
    are written by the processor's thread alone.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        endpoint: str,
        *,
        session: NotedSession | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`session` is the exporter's, if it has one; `clock` returns seconds."""
        self._exporter = exporter
        self._session = session
        self._said = SaidReasons()
        self._endpoint = endpoint
        self._clock = clock
        self._message = LastMessage()
        self._logger = logging.getLogger(_SDK_LOGGER)
        self._logger.addFilter(self._message)
        self._failed_at: float | None = None
        self._lost_before = 0
        self._given_up = threading.Event()
        self._closing = threading.Lock()
        self._closed = False
        self.taken = 0
        self.lost = 0

    @property
    def failing(self) -> bool:
        """Return whether the collector is down, as far as is known."""
        return self._failed_at is not None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans; raises nothing."""
        requests = sum(span.kind is SpanKind.SERVER for span in spans)
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        if not self._given_up.is_set():
            self._message.last = ""
            if self._session is not None:
                self._session.problem = ""
            try:
                result = self._exporter.export(spans)
            except Exception as error:
                self._message.last = type(error).__name__
        if result is SpanExportResult.SUCCESS:
            self._note_success()
        else:
            self._note_failure(requests)
        return result

    def _note_success(self) -> None:
        if self._failed_at is not None and self._clock() - self._failed_at >= RECOVERY_SECONDS:
            self._failed_at = None
            self._said.clear()
            log.info(
                "traces go to %s again; those of %d requests were lost", self._endpoint, self.lost - self._lost_before
            )

    def _note_failure(self, requests: int) -> None:
        if self._failed_at is None:
            self._lost_before = self.lost
        self.lost += requests
        self._failed_at = self._clock()
        reason = (self._session.problem if self._session is not None else "") or self._message.last or "it failed"
        if not self._given_up.is_set() and self._said.is_new(reason):
            log.warning("traces cannot be sent to %s and are lost until they can: %s", self._endpoint, reason)

    def give_up(self) -> None:
        """Export nothing more; an export under way ends by its timeout."""
        self._given_up.set()
        self._close()

    def shutdown(self) -> None:
        """Close; the processor calls it at its end."""
        self._close()
        self._logger.removeFilter(self._message)

    def _close(self) -> None:
        with self._closing:
            if not self._closed:
                self._closed = True
                self._exporter.shutdown()


def traces_url(endpoint: str) -> str:
    """Return the URL for spans of a collector's address: OTLP's own path is appended unless it is there."""
    base = endpoint.rstrip("/")
    return base if base.endswith("/v1/traces") else f"{base}/v1/traces"


def otlp_exporter(endpoint: str, headers: Mapping[str, str], session: NotedSession) -> OTLPSpanExporter:
    """Make the SDK's exporter, with a bounded time."""
    return OTLPSpanExporter(
        endpoint=endpoint, headers=headers, timeout=TIMEOUT_SECONDS, compression=Compression.Gzip, session=session
    )
