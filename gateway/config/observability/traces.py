"""The section `observability.traces`."""

from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.tenants import END


class Traces(Record, frozen=True, kw_only=True):
    """Spans of requests, from the client's call to the engine's phases, for a collector that speaks OTLP over HTTP."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether spans are made. If not, a client's trace context is passed on to replicas as it came."
        ),
    ] = False
    endpoint: Annotated[
        str,
        Meta(
            pattern=rf"^https?://[!-~]{{1,1024}}{END}",
            description="The collector's address, as `http://HOST:4318`; `/v1/traces` follows unless it ends so.",
        ),
    ] = "http://127.0.0.1:4318"
    headers: Annotated[
        dict[str, str],
        Meta(
            max_length=32,
            description="Headers that go with every export; no secrets, which `OTEL_EXPORTER_OTLP_HEADERS` has.",
        ),
    ] = msgspec.field(default_factory=dict)
    sample: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Part of the requests that are traced from their start. A client that sends a trace context "
            "has decided for its request.",
        ),
    ] = 0.01
    slow_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="A request whose first token took so long is traced whether it was sampled or not, in "
            "seconds; 0: none is for that.",
        ),
    ] = 10.0
    errors: Annotated[
        bool,
        Meta(
            description="Whether requests that fail by no fault of the client's are traced, sampled or not; with slow "
            "ones, up to 100 a second in each worker."
        ),
    ] = True
    queue: Annotated[
        int,
        Meta(
            ge=64,
            le=1_000_000,
            description="Spans that wait in each worker for the collector; a request has 12 at most. More are dropped.",
        ),
    ] = 2048

    @property
    def ratio(self) -> float | None:
        """The sampling ratio; None if the traces are off."""
        return self.sample if self.enabled else None
