"""A generate request: what every completion API decodes its requests to."""

from typing import Any, Protocol

import msgspec

from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.parser import OutputParser
from observability.record import RequestRecord
from protos.errors import UnsupportedParameter
from protos.types import Guide, Sampling


class Chat(msgspec.Struct, frozen=True):
    """A prompt of messages for the model's chat template; `extras` are the template's other variables (tools)."""

    messages: list[dict[str, Any]]
    extras: dict[str, Any] = {}


class Begun(msgspec.Struct, frozen=True):
    """A chat whose answer has begun with a text, which the model goes on with."""

    chat: Chat
    text: str


class FillIn(msgspec.Struct, frozen=True):
    """A prompt with a gap between two texts (fill in the middle), for vocabularies with marks for that."""

    prefix: str
    suffix: str


class TokenizedText(list[int]):
    """Token ids that the gateway made from a text; unlike a client's ids they may go to engines that only take text."""


#: A prompt; text is tokenized as it is.
Prompt = Chat | Begun | FillIn | str | list[int]


class AnswerDetails(msgspec.Struct, frozen=True):
    """Details of an answer beside its text, or parts that are left out of it, for clients that ask for them.

    `echo` is shown before each answer. Of each prompt's answers the `best` are kept, by the highest mean log
    probability; 0: all. The answers of a `silent` request are made, since engines make one token at least, and not
    shown. `token_ids`: the ids of prompts and answers are told. `prompt_logprobs`: so are the logprobs of the prompts'
    tokens, with that many alternatives. `logprobs` is the number of alternatives for the answer's tokens that the
    client has asked for, None where it has not: the engine may be asked for more. `thoughts`: those of the model are
    shown.
    """

    echo: tuple[str, ...] = ()
    best: int = 0
    silent: bool = False
    token_ids: bool = False
    prompt_logprobs: int | None = None
    logprobs: int | None = None
    thoughts: bool = True


class NewParser(Protocol):
    """Makes an answer's parser, as `OutputFormat.parser` does; None: the answer is text."""

    def __call__(self, prompt_end: str | None, *, whole: bool = False) -> OutputParser | None: ...


def scratch_record() -> RequestRecord:
    """Make a record that is never published, for the gateway's own requests."""
    return RequestRecord("", "", 0.0, 0.0)


class GenerateRequest(msgspec.Struct, frozen=True):
    """One request, independent of the API it came by. `size` is the body's length in bytes, `max_tokens` None: all that
    fits, `arrived` is on the monotonic clock, `max_tokens_param` is the client's name of the limit.

    `prompt` is messages, text, or token ids. It is empty where `foreign` is set: the refusal of the first body
    parameter that only a replica with the whole API can honour; `endpoint` is then the feature which that replica needs
    beside chat and completions (protos/features.py). `guide_param` is the parameter that holds the guide. `filter`
    screens the answers, `record` is filled in as the request proceeds, and `parser` None means answers are text. Each
    of `prompts` has its own answers, numbered after those of the prompt before. `details` None: an answer shows its
    text. A forwarded request is sent in bodies of about `parts` tokens. `estimate` is about how many tokens an opaque
    prompt has. `adjusted` says what has become of parameters that are hints, for the answer's headers. `prompt_param`
    is the parameter of the prompts or parts. `only_messages` are the messages, if the body has nothing else for the
    model.
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
    record: RequestRecord = msgspec.field(default_factory=scratch_record)
    only_messages: list[dict[str, Any]] | None = None
    parser: NewParser | None = None
    foreign: UnsupportedParameter | None = None
    endpoint: int = 0
    guide: Guide | None = None
    guide_param: str = ""
    filter: AnswerFilter | None = None
    prompts: tuple[Prompt, ...] = ()
    prompt_param: str = "prompt"
    parts: tuple[int, ...] = ()
    estimate: int = 0
    details: AnswerDetails | None = None
    adjusted: tuple[str, ...] = ()

    @property
    def opaque(self) -> bool:
        """Whether the prompt cannot be tokenized here: the body goes unchanged to a replica that speaks its API."""
        return self.foreign is not None or self.model.opaque
