"""Answers of the text APIs, of models and of moderations, as types for the document.

They are written where their bytes are made, and never through these types; tests hold the two together.
"""

from typing import Any, Literal

import msgspec


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is not named may still come: clients pass over it."""


class TokenLogprob(_Answer, frozen=True, kw_only=True):
    """One token and how likely it was."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list["TokenLogprob"] | None = None


class ChatLogprobs(_Answer, frozen=True, kw_only=True):
    """Of the tokens of an answer."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None = None


class PromptDetails(_Answer, frozen=True, kw_only=True):
    """Of a prompt's tokens: those that were not computed anew."""

    cached_tokens: int = 0


class CompletionDetails(_Answer, frozen=True, kw_only=True):
    """Of an answer's tokens: those of its reasoning."""

    reasoning_tokens: int = 0


class Usage(_Answer, frozen=True, kw_only=True):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class FunctionCall(_Answer, frozen=True, kw_only=True):
    """What a model wants called; `arguments` should be JSON and are the model's own text."""

    name: str
    arguments: str


class ToolCall(_Answer, frozen=True, kw_only=True):
    """A call that the client is asked to make."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatMessage(_Answer, frozen=True, kw_only=True):
    """What the model says; `reasoning_content` is what it thought before."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None


class ChatChoice(_Answer, frozen=True, kw_only=True):
    """One of `n` answers."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]


class ChatCompletion(_Answer, frozen=True, kw_only=True):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    system_fingerprint: str | None = None


class FunctionDelta(_Answer, frozen=True, kw_only=True):
    """More of a call."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(_Answer, frozen=True, kw_only=True):
    """More of a call: its id and name come first."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta | None = None


class ChatDelta(_Answer, frozen=True, kw_only=True):
    """More of a message."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChatChunkChoice(_Answer, frozen=True, kw_only=True):
    """More of one of `n` answers."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class ChatChunk(_Answer, frozen=True, kw_only=True):
    """The data of an event of a streamed answer; after the last one comes `[DONE]`."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str | None = None


class CompletionLogprobs(_Answer, frozen=True, kw_only=True):
    """Of the tokens of an answer."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(_Answer, frozen=True, kw_only=True):
    """One of the answers, or more of it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: Literal["stop", "length", "content_filter"] | None = None


class Completion(_Answer, frozen=True, kw_only=True):
    """A whole answer, or the data of an event of a streamed one."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    system_fingerprint: str | None = None


class Model(_Answer, frozen=True, kw_only=True):
    """A name that requests may ask for; `parent` is the model that an adapter belongs to."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int
    parent: str | None = None


class Models(_Answer, frozen=True, kw_only=True):
    """Those that the key may use."""

    object: Literal["list"]
    data: list[Model]


class ModerationResult(_Answer, frozen=True, kw_only=True):
    """What was found in one input."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, list[str]]


class Moderation(_Answer, frozen=True, kw_only=True):
    """What was found."""

    id: str
    model: str
    results: list[ModerationResult]


class Health(_Answer, frozen=True, kw_only=True):
    """Of the process, and where it is asked of the models' replicas."""

    status: Literal["ok", "ready", "not ready"]
    models: dict[str, dict[str, int]] | None = None


class ApiDocument(_Answer, frozen=True, kw_only=True):
    """This document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]
