"""The section `observability.logs`."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record


class Logs(Record, frozen=True, kw_only=True):
    """The log's lines, which every process writes to standard error."""

    format: Annotated[
        Literal["auto", "json", "text"],
        Meta(
            description="`json`: one object a line; `text`: for people; `auto`: text on a terminal, else JSON, unless "
            "the environment variable `PENSTOCK_LOG_FORMAT` says which. Replicas that are started by themselves go by "
            "that variable alone."
        ),
    ] = "auto"
    requests: Annotated[
        Literal["none", "failed", "all"],
        Meta(
            description="Which requests have a line when they have ended: `failed` are those that fail by no fault of "
            "the client's. The journal has all of them whatever this says."
        ),
    ] = "failed"
    per_second: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Most lines about requests that one worker writes in a second, of those that failed and of "
            "the others each; the next line says how many were left out.",
        ),
    ] = 50
