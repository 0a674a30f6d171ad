"""From the configuration of an upstream to the settings of its link."""

from gateway.config.models.upstream import UpstreamSettings as Configured
from gateway.tenancy.providers.provider_keys import KeyOf
from routing.transports.http.upstream_timeouts import Timeouts
from routing.transports.openai.settings import UpstreamSettings


def upstream_settings(configured: Configured | None, key_of: KeyOf) -> UpstreamSettings:
    """What the link of engine `openai` takes as `ReplicaSpec.settings`."""
    upstream = configured or Configured()
    return UpstreamSettings(
        model=upstream.model or "",
        key=key_of(upstream.api_key),
        # As the gateway writes its own, which they replace.
        headers={name.lower(): value for name, value in upstream.headers.items()},
        timeouts=Timeouts(upstream.connect_seconds, upstream.first_byte_seconds, upstream.between_bytes_seconds),
        limit_as=upstream.limit_as,
        salt_as=upstream.salt_as or "",
        max_in_flight=upstream.max_in_flight or 0,
        health=upstream.health,
        health_seconds=upstream.health_seconds,
        metrics=upstream.metrics,
        metrics_kind=upstream.metrics_of,
        forces_usage=upstream.counts_usage,
    )
