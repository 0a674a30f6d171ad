"""The section `observability.metrics`."""

from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.tenants import END


class MetricsOtlp(Record, frozen=True, kw_only=True):
    """A collector that metrics are sent to by OTLP over HTTP; once for the whole gateway, from the admin API."""

    endpoint: Annotated[
        str,
        Meta(
            pattern=rf"^https?://[!-~]{{1,1024}}{END}",
            description="The collector's address, as `http://HOST:4318`; `/v1/metrics` follows unless it ends so.",
        ),
    ]
    headers: Annotated[
        dict[str, str],
        Meta(
            max_length=32,
            description="Headers that go with every export; no secrets, which `OTEL_EXPORTER_OTLP_HEADERS` has.",
        ),
    ] = msgspec.field(default_factory=dict)
    interval_seconds: Annotated[
        float, Meta(ge=1, le=3600, description="Time between one export and the next, in seconds.")
    ] = 15.0


class Metrics(Record, frozen=True, kw_only=True):
    """Counters, gauges and histograms of all workers, which the admin API shows at `/metrics`."""

    enabled: Annotated[
        bool, Meta(description="Whether workers count. What the store knows of limits is shown in any case.")
    ] = True
    tenants: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="How many tenants have series of their own; all others are `other` together. The last quarter "
            "of the places is for tenants with ten requests and more.",
        ),
    ] = 200
    otlp: Annotated[
        MetricsOtlp | None, Meta(description="Where metrics are sent besides; unset: nowhere. Needs the admin API.")
    ] = None
