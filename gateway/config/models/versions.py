"""Settings of one version of a model."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record


class SamplingDefaults(Record, frozen=True, kw_only=True):
    """Sampling parameters of requests that name none."""

    temperature: Annotated[Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="Unset: the engine's.")] = None
    top_p: Annotated[Annotated[float, Meta(gt=0, le=1)] | None, Meta(description="Unset: the engine's.")] = None
    top_k: Annotated[
        Annotated[int, Meta(ge=-1, le=1_000_000)] | None, Meta(description="Unset: the engine's. -1: no bound.")
    ] = None
    min_p: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="Unset: the engine's.")] = None
    repetition_penalty: Annotated[
        Annotated[float, Meta(gt=0, le=10)] | None, Meta(description="Unset: the engine's.")
    ] = None


class VersionPins(Record, frozen=True, kw_only=True):
    """Settings of one version of a model."""

    sampling: Annotated[SamplingDefaults, Meta(description="Defaults of its requests.")] = SamplingDefaults()
    tokenizer_hash: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{8,128}$(?!\n)")] | None,
        Meta(
            description="Hash of its tokenizer, as its replicas report it: one that reports another gets no requests, "
            "and says so. Unset: that of the model's `tokenizer`."
        ),
    ] = None
