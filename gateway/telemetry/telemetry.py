"""Compose a worker's telemetry from the configuration."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.config.observability.journal import journal_settings
from gateway.config.settings import Config
from gateway.reload.messages import Outcome
from gateway.telemetry.gauges import Counting, Limiter, LimitsBatcher, Model, Request
from gateway.telemetry.metrics_publisher import MetricsPublisher
from gateway.telemetry.record_publisher import RecordPublisher
from observability.digests import Digests, digest_key
from observability.request_log import RequestLog
from observability.sink import Sink
from observability.tracing.sampling import HeadSampler

if TYPE_CHECKING:
    from observability.journal.journal_sink import Journal
    from observability.record import RequestRecord


class CountingSink(Sink, Counting, Protocol):
    """A sink that counts its losses."""


class Telemetry:
    """The telemetry of one worker; what is switched off is not made, and costs nothing."""

    def __init__(
        self,
        config: Config,
        worker: str,
        models: Mapping[str, Model],
        in_flight: Collection[Request],
        limits_batcher: LimitsBatcher,
        limiter: Limiter,
        more_sinks: Sequence[Sink] = (),
    ) -> None:
        """`worker` is its name in traces; `more_sinks` get the records too; the other parts are read for gauges."""
        wanted = config.observability
        #: Decides which requests are traced from their start.
        self.sampler = HeadSampler(wanted.traces.ratio)
        self._sinks: dict[str, CountingSink] = {}
        if wanted.logs.requests != "none":
            self._sinks["log"] = RequestLog(wanted.logs.requests, per_second=wanted.logs.per_second)
        if wanted.traces.enabled:
            # Imported here: each worker pays for what it imports.
            from observability.tracing.trace_sink import TraceSink

            self._sinks["traces"] = TraceSink(
                wanted.traces.endpoint,
                instance=worker,
                headers=wanted.traces.headers,
                slow_seconds=wanted.traces.slow_seconds,
                errors=wanted.traces.errors,
                queue=wanted.traces.queue,
            )
        #: None: there is no journal.
        self.journal: Journal[RequestRecord] | None = None
        #: For the journal's hashes.
        self.digests: Digests | None = None
        if wanted.journal.enabled:
            from observability.journal.journal_sink import request_journal

            self.journal = request_journal(journal_settings(wanted.journal, config.state_dir))
            self._sinks["journal"] = self.journal
            self.digests = Digests(digest_key(config.state_dir))
        self._metrics: MetricsPublisher | None = None
        sinks: list[Sink] = [*self._sinks.values(), *more_sinks]
        if wanted.metrics.enabled:
            self._metrics = MetricsPublisher(config, models, in_flight, limits_batcher, limiter, wanted.metrics.tenants)
            sinks.append(self._metrics.sink)
        #: Takes the records of ended requests.
        self.record_publisher = RecordPublisher(sinks)
        #: Takes those of the gateway's own requests to versions of models, which count nowhere as clients' do.
        self.own_record_publisher = RecordPublisher(list(self._sinks.values()))

    def start(self) -> None:
        """Begin; needs a running event loop."""
        if self.journal is not None:
            self.journal.start()
        self.record_publisher.start()
        self.own_record_publisher.start()
        if self._metrics is not None:
            self._metrics.start(self._sinks)

    def use(self, config: Config, models: Mapping[str, Model]) -> None:
        """Show the models of another configuration from now on."""
        if self._metrics is not None:
            self._metrics.use(config, models)

    def reloaded(self, outcome: Outcome) -> None:
        """Show which configuration is in use, and how the last reload ended."""
        if self._metrics is not None:
            self._metrics.configuration.outcome = outcome

    async def aclose(self) -> None:
        """Publish the rest and end. Idempotent."""
        # Both have the same sinks.
        await self.own_record_publisher.stop()
        await self.record_publisher.aclose()
        if self._metrics is not None:
            await self._metrics.aclose()
