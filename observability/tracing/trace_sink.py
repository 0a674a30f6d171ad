"""Turn ended requests into spans: those that were sampled at their start, that failed, or that were slow.

This module imports the SDK, which takes 12 MB and a sixth of a second; a gateway without traces imports `sampling`
alone.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from observability.export_reasons import NotedSession
from observability.outcome import FAILED, Outcome
from observability.record import RequestRecord
from observability.tracing.export import LoggedExporter, otlp_exporter, traces_url
from observability.tracing.spans import MOST_SPANS, SpanMaker, process_resource

log = logging.getLogger(__name__)

#: Seconds for the remaining spans when the gateway ends.
CLOSE_SECONDS: Final = 2.0
#: Seconds that spans wait for others, and the most that are sent together.
_DELAY_MS: Final = 1000
_BATCH: Final = 512
#: Seconds without a loss after which a full queue is logged anew.
_QUIET_SECONDS: Final = 600.0
#: Unsampled requests exported for their end, at most this many a second: an outage fails thousands, and a trace costs a
#: quarter of a millisecond.
LATE_PER_SECOND: Final = 100
#: Sampled requests of one batch (ten and more a second) whose spans are made: that happens on the event loop.
MOST_AT_ONCE: Final = 20


class TraceSink:
    """The `Sink` of traces. The SDK's thread sends them to the collector; what it does not take in time is lost.

    `slow_seconds` bounds the time to the first token, or the time to the end of a request without one; how long an
    answer
    streams does not count. 0: no request is slow. `queue` bounds the spans that wait.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        instance: str,
        headers: Mapping[str, str] | None = None,
        slow_seconds: float = 10.0,
        errors: bool = True,
        queue: int = 2048,
        exporter: SpanExporter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`endpoint` is a collector's address for OTLP over HTTP; `instance` names this process; `clock` returns
        seconds.

        `exporter` takes the place of OTLP's.
        """
        url = traces_url(endpoint)
        session = NotedSession()
        exporter = exporter or otlp_exporter(url, headers or {}, session)
        self._exporter = LoggedExporter(exporter, url, session=session, clock=clock)
        self._queue = max(queue, MOST_SPANS)
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=self._queue,
            schedule_delay_millis=_DELAY_MS,
            max_export_batch_size=min(_BATCH, self._queue),
        )
        self._maker = SpanMaker(process_resource(instance), socket.gethostname())
        self._slow = slow_seconds or float("inf")
        self._errors = errors
        self._clock = clock
        self._put = 0
        self._second, self._late = 0, 0
        self._dropped = 0
        self._dropped_at: float | None = None
        self._closed = False

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Queue spans without waiting; what finds no room is dropped."""
        slow, ok = self._slow, Outcome.OK
        room = MOST_AT_ONCE
        for record in records:
            # A received context decides for its request, but only with a valid key.
            if record.sampled and record.identified:
                room -= 1
                if room < 0:
                    self._dropped += 1
                else:
                    self._export(record)
            elif (record.first_token or record.ended) - record.arrived >= slow or (
                record.outcome is not ok and self._errors and record.outcome in FAILED
            ):
                self._export_late(record)

    def counts(self) -> Mapping[str, float]:
        """Return how many requests' spans were lost."""
        return {"telemetry_dropped_total": self._dropped + self._exporter.lost}

    def _export_late(self, record: RequestRecord) -> None:
        second = int(self._clock())
        if second != self._second:
            self._second, self._late = second, 0
        self._late += 1
        if self._late > LATE_PER_SECOND:
            self._dropped += 1
        else:
            self._export(record)

    def _export(self, record: RequestRecord) -> None:
        # A request's spans are queued all or none; dropped spans are not even built.
        if self._closed or self._put - self._exporter.taken > self._queue - MOST_SPANS:
            self._drop()
            return
        try:
            spans = self._maker.spans(record)
        except Exception:
            self._dropped += 1
            log.exception("request %s has no spans", record.id)
            return
        self._put += len(spans)
        for span in spans:
            self._processor.on_end(span)

    def _drop(self) -> None:
        self._dropped += 1
        now, before = self._clock(), self._dropped_at
        self._dropped_at = now
        if not self._closed and not self._exporter.failing and (before is None or now - before > _QUIET_SECONDS):
            log.warning("the collector takes traces more slowly than they come; some are lost")

    async def aclose(self) -> None:
        """Send what waits, within CLOSE_SECONDS. Idempotent."""
        if self._closed:
            return
        self._closed = True
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call]
            # Whoever gave up waiting may have closed the loop.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        # Not one of the event loop's own threads, for which the process would wait at its end.
        threading.Thread(target=close, name="traces", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await done.wait()
        except TimeoutError:
            self._exporter.give_up()
            log.warning("the collector did not take the last traces in time; the last spans are lost")
