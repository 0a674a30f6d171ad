"""What the transport to Triton must know of a model there."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

#: The values of `Kind`, as the configuration writes them.
KindName = Literal["tensorrt_llm", "ensemble", "tensorrt_llm_bls", "llm_api"]
TokenId = Annotated[int, Meta(ge=0, le=0x7FFF_FFFF)]


class Kind(enum.Enum):
    """The models of TensorRT-LLM's Triton repository templates (triton_backend/all_models)."""

    #: Token ids in and out: the engine itself.
    ENGINE = "tensorrt_llm"
    #: Text in and out, around the engine.
    ENSEMBLE = "ensemble"
    BLS = "tensorrt_llm_bls"
    #: Text in and out: TensorRT-LLM's LLM API as a Python backend.
    LLM_API = "llm_api"

    @property
    def takes_text(self) -> bool:
        """Whether it is asked and answers in text."""
        return self is not Kind.ENGINE


class TextCodec(Protocol):
    """The model's tokenizer, where the model's own is behind its text."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """A prompt's text, from which its server makes these ids again, as well as text can say them."""
        ...

    def encode(self, text: str, *, first: bool) -> list[int]:
        """Ids that add `text` to an answer, of which it is the `first` piece or a later one."""
        ...


class TritonOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that is asked on each Triton server of a pool, as the configuration writes it."""

    model: Annotated[
        str, Meta(min_length=1, max_length=256, description="Name of the model in the server's repository.")
    ]
    kind: Annotated[
        KindName,
        Meta(
            description="Which of TensorRT-LLM's templates it is made from. `tensorrt_llm` takes token ids, and can do "
            "the most. `ensemble` and `tensorrt_llm_bls` take text, around such a model; so does `llm_api`, the "
            "template over the LLM API."
        ),
    ]
    batch_dimension: Annotated[
        bool | None,
        Meta(description="Whether its tensors have a batch dimension; unset: if its own `max_batch_size` is above 0."),
    ] = None
    max_in_flight: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description="Requests that it takes at once; more wait in the gateway's queue. Unset: as the metrics say, "
            "or any number."
        ),
    ] = None
    pad_id: Annotated[
        TokenId | None, Meta(description="Token that fills up; unset: the server's. Not for `llm_api`.")
    ] = None

    @property
    def template(self) -> Kind:
        """The template that `kind` names."""
        return Kind(self.kind)


@dataclass(frozen=True, slots=True)
class TritonSettings:
    """How one replica's model is asked. `codec` is there for kinds that take text.

    `end_id` ends an answer, and so do `other_end_ids`. `metrics_url` empty: load is counted here.
    """

    options: TritonOptions
    codec: TextCodec | None = None
    end_id: int | None = None
    other_end_ids: tuple[int, ...] = ()
    metrics_url: str = ""
