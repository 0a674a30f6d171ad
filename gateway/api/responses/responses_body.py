"""The request body of `POST /v1/responses` (OpenAI API reference, Responses)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.api.openai.extension_params import Api, taken
from gateway.api.openai.thinking_hints import Effort
from gateway.api.responses.metadata import Metadata
from gateway.api.server.body_decoder import BodyDecoder
from protos.errors import InvalidRequest, UnsupportedParameter

Verbosity = Literal["low", "medium", "high"]
#: Additions to the answer that may be asked for. Most concern hosted tools, which do not exist here; input images are
#: always shown, and reasoning is plain text, so nothing needs to be encrypted.
Includable = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
#: The same bound as on a chat's messages.
MAX_ITEMS: Final = 10_000
LOGPROBS: Final = "message.output_text.logprobs"


class ConversationRef(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A conversation by its id."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]


class Reasoning(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Reasoning options. Reasoning is shown as it is, so no summary is made, whichever is asked for."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: Annotated[str, Meta(max_length=64)] | None = None


class TextFormat(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    name: Any = None
    schema: Any = None
    description: Any = None
    strict: bool | None = None


class TextConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of the answer's text."""

    format: TextFormat | None = None
    verbosity: Verbosity | None = None


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a streamed answer. Events are not padded against guesses from their sizes; the last one always has the
    counts, which `include_usage` asks chats for.
    """

    include_obfuscation: bool | None = None
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Prompting(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The fields that make the prompt: all that the body of `POST /v1/responses/input_tokens` has."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | Annotated[list[dict[str, Any]], Meta(max_length=MAX_ITEMS)] | None = None
    instructions: str | None = None
    previous_response_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    conversation: Annotated[str, Meta(min_length=1, max_length=128)] | ConversationRef | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the response continues."""
        given = self.conversation
        return given.id if isinstance(given, ConversationRef) else given

    def check(self) -> None:
        """Refuse contradictions and what is not supported. Raises InvalidRequest or UnsupportedParameter."""
        if self.conversation is not None and self.previous_response_id is not None:
            raise InvalidRequest(
                "Mutually exclusive parameters: provide 'previous_response_id' or 'conversation', not both.",
                param="previous_response_id",
            )
        if self.truncation == "auto":
            raise _unsupported_value("truncation", "auto")
        if self.reasoning is not None:
            if self.reasoning.context not in (None, "auto"):
                raise _unsupported_value("reasoning.context", self.reasoning.context)
            if self.reasoning.mode not in (None, "standard"):
                raise _unsupported_value("reasoning.mode", self.reasoning.mode)


class CreateBody(Prompting, frozen=True, kw_only=True):
    """The request body."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    store: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    #: Of hosted tools, which do not exist here.
    max_tool_calls: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    #: Of the chat API, some also of Open Responses; the others are extensions that clients of servers send.
    presence_penalty: Any = None
    frequency_penalty: Any = None
    seed: Any = None
    stop: Any = None
    logit_bias: Any = None
    top_k: Any = None
    min_p: Any = None
    repetition_penalty: Any = None
    min_tokens: Any = None
    ignore_eos: Any = None
    stop_token_ids: Any = None
    chat_template_kwargs: Any = None
    enable_thinking: Any = None
    thinking: Any = None
    documents: Any = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    structured_outputs: Any = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
    regex: Any = None
    ebnf: Any = None
    cache_salt: Any = None
    include: list[Includable] | None = None
    metadata: Metadata | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    safety_identifier: Annotated[str, Meta(max_length=512)] | None = None
    prompt_cache_key: Annotated[str, Meta(max_length=512)] | None = None

    @property
    def logprobs(self) -> int | None:
        """The alternatives wanted for each token; None: not even the token's own probability."""
        if self.top_logprobs or LOGPROBS in (self.include or ()):
            return self.top_logprobs or 0
        return None

    def check(self) -> None:
        super().check()
        if self.stream_options is not None:
            if not self.stream:
                raise InvalidRequest(
                    "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
                )
            for name in ("include_obfuscation", "continuous_usage_stats"):
                if getattr(self.stream_options, name):
                    raise _unsupported_value(f"stream_options.{name}", "true")


#: Members that the chat's body has by the same name, and which it checks.
CHAT_FIELDS: Final = (
    *("temperature", "top_p", "user", "safety_identifier", "prompt_cache_key"),
    *("presence_penalty", "frequency_penalty", "seed", "stop", "logit_bias", "top_k", "min_p", "repetition_penalty"),
    *("min_tokens", "ignore_eos", "stop_token_ids", "chat_template_kwargs", "enable_thinking", "thinking", "documents"),
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "regex", "ebnf"),
    "cache_salt",
)


def _unsupported_value(param: str, value: object) -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported value: '{param}' may not be '{value}' here.", param=param)


_create: Final = BodyDecoder(CreateBody, taken(Api.RESPONSES, CreateBody.__struct_fields__))
_prompting: Final = BodyDecoder(Prompting, {"personality": ()})


def read_create(body: bytes) -> CreateBody:
    """Decode a body. Raises InvalidRequest or UnsupportedParameter, with `param` where one is at fault."""
    found = _create.decode(body)
    found.check()
    return found


def read_prompting(body: bytes) -> Prompting:
    """Decode a body. Raises InvalidRequest or UnsupportedParameter, with `param` where one is at fault."""
    found = _prompting.decode(body)
    found.check()
    return found
