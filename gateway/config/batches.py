"""The section `batches`."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record


class Batches(Record, frozen=True, kw_only=True):
    """Batches: files of requests that run in what interactive traffic leaves free."""

    max_requests: Annotated[int, Meta(ge=1, le=1_000_000, description="Most requests of one batch.")] = 50_000
    max_active: Annotated[int, Meta(ge=1, le=1000, description="Batches of a tenant that have not ended.")] = 64
    max_concurrency: Annotated[
        int, Meta(ge=1, le=100_000, description="Requests of batches that one worker runs at once.")
    ] = 2048
    keep_days: Annotated[
        float, Meta(gt=1, le=3650, description="Days after its creation for which a batch can be looked up.")
    ] = 30.0
