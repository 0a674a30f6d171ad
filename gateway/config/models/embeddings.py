"""A model's embedding settings."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record


class Embeddings(Record, frozen=True, kw_only=True):
    """How upstreams are asked for embeddings."""

    batch: Annotated[
        int,
        Meta(ge=1, le=2048, description="Inputs of one request to an upstream; what a client sends more is split."),
    ] = 32
    parallel: Annotated[
        int, Meta(ge=1, le=64, description="Requests to upstreams that one client's request may have at once.")
    ] = 8
    encoding: Annotated[
        Literal["asked", "float", "base64"],
        Meta(description="How upstreams are asked to write numbers. `asked`: as the client wants them, which it gets."),
    ] = "asked"
