"""The section `observability`."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.observability.journal import Journal
from gateway.config.observability.logs import Logs
from gateway.config.observability.metrics import Metrics
from gateway.config.observability.traces import Traces


class Observability(Record, frozen=True, kw_only=True):
    """Metrics, traces, the journal and the log."""

    metrics: Annotated[Metrics, Meta(description="Counters, gauges and histograms.")] = Metrics()
    traces: Annotated[Traces, Meta(description="Spans of requests.")] = Traces()
    journal: Annotated[Journal, Meta(description="One entry for each request, on this machine's disk.")] = Journal()
    logs: Annotated[Logs, Meta(description="Lines on standard error.")] = Logs()
