"""`POST /v1/chat/completions` (OpenAI API reference, Chat)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.http.decoding import BodyDecoder
from gateway.http.dialect import Dialect
from gateway.http.guides import GUIDES
from gateway.http.params import UNSUPPORTED, SamplingFields
from gateway.http.prompt_texts import PromptText, content_places
from gateway.request import Chat, GenerateRequest
from gateway.sequence import TokenEntry
from gateway.served_model import ServedModel
from gateway.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter

MAX_MESSAGES = 10_000


class ContentPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A part of a message; parts of other types than text are refused by their type."""

    type: Annotated[str, Meta(max_length=64)]
    text: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None
    refusal: Any = None


class Message(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    audio: Any = None
    tool_calls: Any = None
    tool_call_id: str | None = None
    function_call: Any = None


class ChatBody(SamplingFields, frozen=True, kw_only=True):
    """The request body."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    safety_identifier: Annotated[str, Meta(max_length=512)] | None = None


_decoder = BodyDecoder(
    ChatBody,
    unsupported={
        **UNSUPPORTED,
        **GUIDES,
        "audio": (),
        "chat_template_kwargs": ({},),
        "function_call": (),
        "functions": (),
        "modalities": (["text"],),
        "moderation": (),
        "parallel_tool_calls": (),
        "prediction": (),
        "prompt_cache_key": (),
        "prompt_cache_retention": (),
        "reasoning_effort": (),
        "tool_choice": ("none",),
        "tools": ([],),
        "verbosity": (),
        "web_search_options": (),
    },
)


def _request(
    body: SamplingFields,
    caller: Caller,
    model: ServedModel,
    record: RequestRecord,
    size: int,
    foreign: UnsupportedParameter | None,
) -> GenerateRequest:
    assert isinstance(body, ChatBody)
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidRequest(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", param="max_tokens"
        )
    logprobs = None
    if body.logprobs:
        logprobs = body.top_logprobs or 0
    elif body.top_logprobs is not None:
        raise InvalidRequest("'top_logprobs' is only allowed when 'logprobs' is enabled.", param="top_logprobs")
    return GenerateRequest(
        id=record.id,
        caller=caller,
        model=model,
        prompt=Chat([] if foreign else [_message(message, i) for i, message in enumerate(body.messages)]),
        size=size,
        sampling=body.sampling(vocab_size=model.tokenizer.vocab_size, logprobs=logprobs),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        stops=body.stops,
        stream=bool(body.stream),
        arrived=record.arrived,
        max_tokens_param="max_tokens" if body.max_completion_tokens is None else "max_completion_tokens",
        foreign=foreign,
        record=record,
    )


def _texts(body: SamplingFields, model: ServedModel) -> list[PromptText] | None:
    """The messages, where each is a string and nothing else."""
    del model
    assert isinstance(body, ChatBody)
    texts, new = [], tuple.__new__
    for message, (param, path) in zip(body.messages, content_places(len(body.messages)), strict=False):
        text = message.content
        if type(text) is not str or not (
            message.name is message.refusal is message.tool_calls is message.function_call is message.audio is None
        ):
            return None
        # Past the named tuple's own constructor, which takes twice as long: every filtered request comes here.
        texts.append(new(PromptText, (message.role, param, path, text)))
    return texts


def _message(message: Message, position: int) -> dict[str, Any]:
    """A message in the form that chat templates expect. Raises what cannot be rendered, by name."""
    for field in ("tool_calls", "function_call", "audio", "tool_call_id"):
        if getattr(message, field) is not None:
            param = f"messages[{position}].{field}"
            raise UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
    if message.role in ("tool", "function"):
        param = f"messages[{position}].role"
        raise UnsupportedParameter(f"Unsupported value: '{param}' may not be '{message.role}' here.", param=param)
    content = message.content
    if isinstance(content, list):
        content = "".join(_text_of(part, f"messages[{position}].content[{i}]") for i, part in enumerate(content))
    if content is None:
        content = message.refusal
    if content is None:
        param = f"messages[{position}].content"
        raise InvalidRequest(f"Missing required parameter: '{param}'.", param=param)
    rendered: dict[str, Any] = {"role": message.role, "content": content}
    if message.name is not None:
        rendered["name"] = message.name
    return rendered


def _text_of(part: ContentPart, param: str) -> str:
    if part.type != "text":
        raise UnsupportedParameter(
            f"Unsupported value: '{param}' has type '{part.type}'; only text is supported here.", param=f"{param}.type"
        )
    if part.text is None:
        raise InvalidRequest(f"Missing required parameter: '{param}.text'.", param=f"{param}.text")
    return part.text


def _token(token_id: int, logprob: float, model: ServedModel) -> dict[str, Any]:
    data = model.tokenizer.token_bytes(token_id)
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


def _logprobs(entries: list[TokenEntry], model: ServedModel, offset: int) -> dict[str, Any]:
    del offset  # of text completions only
    content = []
    for token_id, entry in entries:
        shown = _token(token_id, entry.chosen, model)
        shown["top_logprobs"] = [_token(top_id, logprob, model) for top_id, logprob in entry.top]
        content.append(shown)
    return {"content": content, "refusal": None}


CHAT = Dialect(
    endpoint="chat",
    path="/chat/completions",
    id_prefix="chatcmpl-",
    object="chat.completion",
    chunk_object="chat.completion.chunk",
    decode=_decoder.decode,
    decode_all=_decoder.decode_all,
    request=_request,
    texts=_texts,
    message=lambda text: {"message": {"role": "assistant", "content": text, "refusal": None}},
    logprobs=_logprobs,
    opening={"role": "assistant", "content": "", "refusal": None},
    text_head=b'"delta":{"content":"',
    text_tail=b'"}',
    no_text=b'"delta":{}',
)
