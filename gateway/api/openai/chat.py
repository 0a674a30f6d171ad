"""`POST /v1/chat/completions` (OpenAI API reference, Chat)."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import astuple

from gateway.api.openai.completion_api import CompletionApi, Naming, token_number, token_text
from gateway.api.openai.extension_params import Api, taken
from gateway.api.openai.media.media_parts import MEDIA_TYPES, check_media
from gateway.api.openai.prompt_texts import content_places
from gateway.api.openai.sampling_params import SamplingFields
from gateway.api.openai.template_extras import Documents, TemplateKwargs, check_kwargs, template_extras
from gateway.api.openai.thinking_hints import Effort, take_thinking
from gateway.api.openai.tools.tool_messages import check_calls, rendered_calls
from gateway.api.openai.tools.tool_offer import Offer, offer, plain_parser
from gateway.api.openai.tools.tool_params import CallId, CallsField, ChoiceField, ToolsField
from gateway.api.openai.tools.tool_use import tool_use
from gateway.api.server.body_decoder import BodyDecoder
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate_request import Chat, GenerateRequest
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.sequence_text import TokenEntry
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter

MAX_MESSAGES = 10_000


class ContentPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A part of a message; parts of other types than text are refused by their type. Caches here need no
    breakpoints.
    """

    type: Annotated[str, Meta(max_length=64)]
    text: str | None = None
    image_url: Any = None
    input_audio: Any = None
    audio_url: Any = None
    video_url: Any = None
    file: Any = None
    refusal: Any = None
    prompt_cache_breakpoint: Any = None
    cache_control: Any = None
    #: What an answer's message has beside its content: OpenAI's Agents SDK for Node sends it back in its text's part
    #: as well as where it belongs.
    role: Any = None
    annotations: Any = None
    audio: Any = None
    function_call: Any = None
    tool_calls: Any = None
    reasoning_content: Any = None
    reasoning: Any = None


#: Members of a part that only an assistant's may have.
_OF_ANSWERS: Final = ("role", "annotations", "audio", "function_call", "tool_calls", "reasoning_content", "reasoning")


class Message(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One message of a conversation. `reasoning` is vLLM's newer name of `reasoning_content`; `annotations` are part of
    OpenAI's answers, which clients send back whole, and are shown to no model.
    """

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    tool_call_id: CallId | None = None
    name: str | None = None
    refusal: str | None = None
    audio: Any = None
    tool_calls: CallsField | None = None
    function_call: Any = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    annotations: Any = None


class ChatBody(SamplingFields, frozen=True, kw_only=True):
    """The request body. `chat_template_kwargs` and `documents` are vLLM's, `enable_thinking` is Qwen's."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    safety_identifier: Annotated[str, Meta(max_length=512)] | None = None
    #: A hint for caches. The gateway's prefix routing uses the prompt itself.
    prompt_cache_key: Annotated[str, Meta(max_length=512)] | None = None
    tools: ToolsField | None = None
    tool_choice: ChoiceField | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    documents: Documents | None = None
    chat_template_kwargs: TemplateKwargs | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the body has nothing but messages for the model."""
        return _BESIDE_MESSAGES(self) == _NOTHING_BESIDE


_NAMES_BESIDE: Final = (
    *("tools", "tool_choice", "reasoning_effort", "enable_thinking", "verbosity", "documents"),
    "chat_template_kwargs",
)
#: What a body has for the model beside messages.
_BESIDE_MESSAGES: Final = attrgetter(*_NAMES_BESIDE)
_NOTHING_BESIDE: Final = (None,) * len(_NAMES_BESIDE)

_decoder = BodyDecoder(ChatBody, taken(Api.CHAT, ChatBody.__struct_fields__))


def _request(
    body: SamplingFields,
    caller: Caller,
    model: ServedModel,
    record: RequestRecord,
    size: int,
    foreign: UnsupportedParameter | None,
) -> GenerateRequest:
    assert isinstance(body, ChatBody)
    max_tokens, max_tokens_param = body.max_tokens, "max_tokens"
    if body.max_completion_tokens is not None:
        if max_tokens is not None:
            raise InvalidRequest(
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
                param="max_tokens",
            )
        max_tokens, max_tokens_param = body.max_completion_tokens, "max_completion_tokens"
    logprobs = None
    if body.logprobs:
        logprobs = body.top_logprobs or 0
    elif body.top_logprobs:
        raise InvalidRequest("'top_logprobs' is only allowed when 'logprobs' is enabled.", param="top_logprobs")
    offered, parser = _NO_OFFER, None
    adjusted: tuple[str, ...] = ()
    if foreign is not None:
        prompt, only_messages = _NOTHING, None
        _check(body, model)
    elif body.is_plain:
        messages = _messages(body, model)
        # An upstream sees the whole body of what is relayed.
        prompt, only_messages = Chat(messages), None if model.relays else messages
        if model.output is not None:
            parser = plain_parser(model.output)
    else:
        only_messages = None
        prompt, offered, adjusted = _with_tools(body, model)
        parser = offered.parser
    request = GenerateRequest(
        record.id,
        caller,
        model,
        prompt,
        size,
        body.sampling(model.tokenizer.vocab_size, logprobs),
        max_tokens,
        () if body.stop is None else body.stops,
        bool(body.stream),
        record.arrived,
        max_tokens_param,
        record,
        only_messages,
        parser,
        foreign,
    )
    if offered is _NO_OFFER or (offered.guide is None and not offered.guide_param and not adjusted):
        return request
    return msgspec.structs.replace(request, guide=offered.guide, guide_param=offered.guide_param, adjusted=adjusted)


#: The prompt of a request that only an upstream can handle.
_NOTHING: Final = Chat([])
_NO_OFFER: Final = Offer([], None)


def _tool_use(body: ChatBody) -> ToolUse | None:
    return tool_use(body.tools, body.tool_choice, body.parallel_tool_calls)


def _with_tools(body: ChatBody, model: ServedModel) -> tuple[Chat, Offer, tuple[str, ...]]:
    """Make a prompt with tools or other template variables, the offer that its answers are parsed by, and the entries
    of `x-penstock-adjusted` for its hints.
    """
    use, format_ = _tool_use(body), model.chat_format
    check_kwargs(body.chat_template_kwargs or {})
    offered = Offer([], plain_parser(model.output)) if use is None else offer(model, use)
    extras, adjusted = template_extras(
        format_.reads,
        body.chat_template_kwargs,
        effort=body.reasoning_effort,
        thinking=body.enable_thinking,
        verbosity=body.verbosity,
        documents=body.documents,
    )
    if offered.shown:
        extras["tools"] = offered.shown
    return Chat(_messages(body, model), extras), offered, adjusted


def _check(body: ChatBody, model: ServedModel) -> None:
    """Check what is invalid even where the gateway does not render it. Raises InvalidRequest and media errors."""
    with suppress(UnsupportedParameter):
        _tool_use(body)
    check_kwargs(body.chat_template_kwargs or {})
    check_calls(body.messages)
    media = 0
    for position, message in enumerate(body.messages):
        if not isinstance(message.content, list):
            continue
        for i, part in enumerate(message.content):
            if part.type not in ("text", "refusal"):
                param = f"messages[{position}].content[{i}]"
                media += 1
                if media > model.media.max_parts:
                    raise InvalidRequest(
                        f"Invalid value for '{param}': more than {model.media.max_parts} parts are no text.",
                        param=param,
                    )
                check_media(msgspec.structs.asdict(part), param, model.media)


def _media(body: SamplingFields) -> Iterator[dict[str, Any]]:
    assert isinstance(body, ChatBody)
    for message in body.messages:
        if isinstance(message.content, list):
            for part in message.content:
                if part.type in MEDIA_TYPES:
                    yield msgspec.structs.asdict(part)


def _texts(body: SamplingFields, model: ServedModel) -> list[PromptText] | None:
    """List the messages' texts; None where the body has more than plain text messages."""
    del model
    assert isinstance(body, ChatBody)
    if not body.is_plain:
        return None
    texts, new = [], tuple.__new__
    for message, (param, path) in zip(body.messages, content_places(len(body.messages)), strict=False):
        role, text, _, *others = astuple(message)
        if type(text) is not str or others != _NO_OTHERS_THAN_CALL_ID:
            return None
        # Skips the named tuple's own constructor, which takes twice as long: every filtered request runs this.
        texts.append(new(PromptText, (role, param, path, text)))
    return texts


#: Values of the other message members where only the plain ones are set.
_NO_OTHERS: Final = [None] * (len(Message.__struct_fields__) - 2)
_NO_OTHERS_THAN_CALL_ID: Final = _NO_OTHERS[1:]


def _messages(body: ChatBody, model: ServedModel) -> list[dict[str, Any]]:
    """Make the messages that chat formats expect. Raises what cannot be rendered, by name."""
    rendered, plain = [], True
    for message in body.messages:
        role, text, *others = astuple(message)
        if type(text) is str and role not in _OF_TOOLS:
            if others == _NO_OTHERS:
                rendered.append({"role": role, "content": text})
                continue
            plain = plain and message.tool_calls is None and not message.tool_call_id
        else:
            plain = False
        rendered.append(_message(message, len(rendered)))
    return rendered if plain else _with_calls(body, model, rendered)


_OF_TOOLS: Final = frozenset(("tool", "function"))


def _with_calls(body: ChatBody, model: ServedModel, rendered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add earlier turns' tool calls and their results to the rendered messages."""
    results = check_calls(body.messages)
    for position, (message, rendered_message) in enumerate(zip(body.messages, rendered, strict=True)):
        at = f"messages[{position}]"
        if message.role == "function":
            param = f"{at}.role"
            raise UnsupportedParameter(f"Unsupported value: '{param}' may not be 'function' here.", param=param)
        if message.tool_calls:
            rendered_message["tool_calls"] = rendered_calls(message.tool_calls, f"{at}.tool_calls")
        elif position in results:
            rendered_message["tool_call_id"] = message.tool_call_id
            rendered_message.setdefault("name", results[position])
        else:
            continue
        if not model.chat_format.calls:
            param = f"{at}.tool_call_id" if position in results else f"{at}.tool_calls"
            raise UnsupportedParameter(
                f"Unsupported parameter: '{param}' is not supported by this model's chat template.", param=param
            )
    return rendered


def _message(message: Message, position: int) -> dict[str, Any]:
    for field in ("function_call", "audio"):
        if getattr(message, field) is not None:
            param = f"messages[{position}].{field}"
            raise UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
    content = message.content
    if isinstance(content, list):
        parts = enumerate(content)
        content = "".join(_text_of(part, f"messages[{position}].content[{i}]", message.role) for i, part in parts)
    if content is None:
        content = message.refusal
    if content is None and not message.tool_calls:
        param = f"messages[{position}].content"
        raise InvalidRequest(f"Missing required parameter: '{param}'.", param=param)
    rendered: dict[str, Any] = {"role": message.role, "content": content}
    if message.name is not None:
        rendered["name"] = message.name
    thoughts = message.reasoning_content or message.reasoning
    if thoughts and message.role == "assistant":
        # The template decides what becomes of reasoning: most leave out that of earlier turns.
        rendered["reasoning_content"] = thoughts
    return rendered


def _text_of(part: ContentPart, param: str, role: str) -> str:
    if role != "assistant":
        for name in _OF_ANSWERS:
            if getattr(part, name) is not None:
                raise InvalidRequest(f"Unrecognized request argument supplied: {param}.{name}", param=f"{param}.{name}")
    if part.type == "refusal" and isinstance(part.refusal, str):
        return part.refusal
    if part.type != "text":
        raise UnsupportedParameter(
            f"Unsupported value: '{param}' has type '{part.type}'; only text is supported here.", param=f"{param}.type"
        )
    if part.text is None:
        raise InvalidRequest(f"Missing required parameter: '{param}.text'.", param=f"{param}.text")
    return part.text


def _token(token_id: int, logprob: float, model: ServedModel, named: Naming) -> dict[str, Any]:
    data = model.tokenizer.token_bytes(token_id)
    return {"token": named(token_id, model), "logprob": logprob, "bytes": list(data)}


def _logprobs(
    entries: list[TokenEntry], model: ServedModel, offset: int, *, named: Naming = token_text
) -> dict[str, Any]:
    del offset  # of text completions only
    content = []
    for token_id, entry, _ in entries:
        shown = _token(token_id, entry.chosen, model, named)
        shown["top_logprobs"] = [_token(top_id, logprob, model, named) for top_id, logprob in entry.top]
        content.append(shown)
    return {"content": content, "refusal": None}


CHAT = CompletionApi(
    endpoint="chat",
    path="/chat/completions",
    id_prefix="chatcmpl-",
    object="chat.completion",
    chunk_object="chat.completion.chunk",
    decode=_decoder.decode,
    decode_all=_decoder.decode_all,
    request=_request,
    hints=take_thinking,
    texts=_texts,
    media=_media,
    message=lambda text: {"message": {"role": "assistant", "content": text, "refusal": None}},
    logprobs=_logprobs,
    logprobs_by_id=partial(_logprobs, named=token_number),
    opening={"role": "assistant", "content": "", "refusal": None},
    text_head=b'"delta":{"content":"',
    text_tail=b'"}',
    no_text=b'"delta":{}',
)
