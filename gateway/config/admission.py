"""The section `admission`: how full replicas may be, and how many requests may wait."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record


class AdmissionSettings(Record, frozen=True, kw_only=True):
    """When a request may go to a replica, and how many may wait until then."""

    watermark: Annotated[
        float,
        Meta(
            ge=0.05,
            le=1,
            description="Part of a replica's KV cache and running slots that is filled; the rest stays free.",
        ),
    ] = 0.95
    max_waiting: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Requests that wait in one worker; beyond, those of the lowest tier are shed.",
        ),
    ] = 2048
