"""Settings of the transport to a model behind Triton."""

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
        """Whether its prompts and answers are text."""
        return self is not Kind.ENGINE


class TextCodec(Protocol):
    """The model's tokenizer, for models that take and give text."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return a prompt's text, which the server encodes to these ids again as far as text allows."""
        ...

    def encode(self, text: str, *, first: bool) -> list[int]:
        """Encode a piece of an answer; `first`: it is the answer's first piece."""
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
        """The template named by `kind`."""
        return Kind(self.kind)


@dataclass(frozen=True, slots=True)
class TritonSettings:
    """Settings of one replica's model. `codec` is set for kinds that take text.

    `end_id` and `other_end_ids` end an answer. `metrics_url` empty: the load is counted in this worker.
    """

    options: TritonOptions
    codec: TextCodec | None = None
    end_id: int | None = None
    other_end_ids: tuple[int, ...] = ()
    metrics_url: str = ""
