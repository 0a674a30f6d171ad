"""What the link to Triton must know of a model there."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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


@dataclass(frozen=True, slots=True)
class TritonSettings:
    """How one replica's model is asked. `codec` is there for kinds that take text.

    `end_id` ends an answer, and so do `other_end_ids`; without `pad_id` it is the server's own. `batch_dimension` None:
    as the model's configuration has it. `metrics_url` empty: load is counted here. `max_in_flight` 0: as many as the
    engine says that it takes, or any number.
    """

    model: str
    kind: Kind
    codec: TextCodec | None = None
    end_id: int | None = None
    other_end_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    batch_dimension: bool | None = None
    metrics_url: str = ""
    max_in_flight: int = 0
