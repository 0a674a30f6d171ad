"""One request as every API's dialect leaves it."""

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.parser import OutputParser
from observability.record import RequestRecord
from protos.errors import UnsupportedParameter
from protos.types import Guide, Sampling


class Chat(msgspec.Struct, frozen=True):
    """A prompt as messages, for the model's chat template; `extras` are what else it is given, such as tools."""

    messages: list[dict[str, Any]]
    extras: dict[str, Any] = {}


class FillIn(msgspec.Struct, frozen=True):
    """A prompt for what goes between two texts, for models whose vocabulary has marks for that."""

    prefix: str
    suffix: str


class OwnIds(list[int]):
    """The ids of a client's text: they go to engines that only take text, too, as those of a client do not."""


#: What a request may ask about; text is tokenized as it is.
Prompt = Chat | FillIn | str | list[int]


class Best(msgspec.Struct, frozen=True):
    """Of each prompt's answers, how many are shown: those of the best mean log probability."""

    keep: int
    logprobs: bool


#: Makes the parser of an answer from how the prompt ends (gateway/text/parsing/output_format.py); None: all is text.
NewParser = Callable[[str], OutputParser | None]


def unrecorded() -> RequestRecord:
    """For requests of the gateway's own, which nobody is told of."""
    return RequestRecord("", "", 0.0, 0.0)


class GenerateRequest(msgspec.Struct, frozen=True):
    """One request, free of any API. `size` is the body's length in bytes, `max_tokens` None: all that fits, `arrived`
    is on the monotonic clock, `max_tokens_param` is what the client called the limit.

    `prompt` is messages, text, or token ids; empty where `foreign` is there, the refusal of the first parameter in the
    body that only a replica that speaks the API can honour. `endpoint`, of such a request, is what that replica must
    have beside chat and completions (protos/features.py). `guide_param` is the parameter that the guide is from.
    `filter` screens its answers, and `record` is filled in as the request goes on. Without `parser` answers are text.
    Each of `prompts` has answers of its own, the next ones after those of the one before it; `echo` is what is shown
    before each answer. A forwarded request is sent in bodies of the sizes `parts`, in bytes. `prompt_param` is the
    parameter that prompts or parts come in. `all_told` are the messages, if the body has nothing else for the model.
    """

    id: str
    caller: Caller
    model: ServedModel
    prompt: Prompt
    size: int
    sampling: Sampling
    max_tokens: int | None
    stops: tuple[str, ...]
    stream: bool
    arrived: float
    max_tokens_param: str = "max_tokens"
    foreign: UnsupportedParameter | None = None
    endpoint: int = 0
    guide: Guide | None = None
    guide_param: str = ""
    filter: AnswerFilter | None = None
    parser: NewParser | None = None
    prompts: tuple[Prompt, ...] = ()
    prompt_param: str = "prompt"
    parts: tuple[int, ...] = ()
    echo: tuple[str, ...] = ()
    best: Best | None = None
    all_told: list[dict[str, Any]] | None = None
    record: RequestRecord = msgspec.field(default_factory=unrecorded)

    @property
    def opaque(self) -> bool:
        """Whether its prompt cannot be tokenized here: the request goes as it is to a replica that speaks its API."""
        return self.foreign is not None or self.model.opaque
