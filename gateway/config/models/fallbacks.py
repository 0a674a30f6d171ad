"""Fallback chains: models that answer when the requested one cannot."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record


class Fallbacks(Record, frozen=True, kw_only=True):
    """A chain of models. The next one is asked when a model has no replica or no room, fails before its first token,
    takes too long to it, or cannot take the request at all: too long a prompt, or a feature that its engines lack.
    """

    models: Annotated[
        tuple[str, ...],
        Meta(min_length=1, max_length=16, description="Names of other models of this file."),
    ]
    order: Annotated[
        Literal["listed", "cost", "latency"],
        Meta(
            description="Which of them is asked first: as they are listed, the one whose answer is expected to cost "
            "least, or the one that lately began to answer soonest."
        ),
    ] = "listed"
    usd: Annotated[
        Annotated[float, Meta(gt=0, le=1_000_000)] | None,
        Meta(
            description="Most that a request may be expected to cost, in US dollars, of its prompt and longest answer: "
            "models above it are left out, the one that was asked for too, unless all of them are above it; then the "
            "cheapest answers. Unset: no bound."
        ),
    ] = None
    ttft_ms: Annotated[
        Annotated[float, Meta(gt=0, le=3_600_000)] | None,
        Meta(
            description="Milliseconds that a model has until its first token before the next one is asked; the last "
            "one has all the time that is left. Unset: all of them have."
        ),
    ] = None
