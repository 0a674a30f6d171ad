"""Answers of Anthropic's Messages, as types for the document."""

from typing import Any, Literal

import msgspec


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is not named may still come."""


class AnthropicErrorObject(_Answer, frozen=True, kw_only=True):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(_Answer, frozen=True, kw_only=True):
    """The body of every answer with a status of 400 or more, in Anthropic's API."""

    type: Literal["error"]
    error: AnthropicErrorObject
    request_id: str | None


class AnswerText(_Answer, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """What the model says."""

    text: str


class AnswerThinking(_Answer, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """What it thought before."""

    thinking: str
    signature: str


class AnswerToolUse(_Answer, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    """A call that the client is asked to make."""

    id: str
    name: str
    input: dict[str, Any]


class MessageUsage(_Answer, frozen=True, kw_only=True):
    """Tokens; those of the prompt that were not computed anew are counted apart."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class MessageAnswer(_Answer, frozen=True, kw_only=True):
    """A whole answer."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerText | AnswerThinking | AnswerToolUse]
    stop_reason: str | None
    stop_sequence: str | None
    usage: MessageUsage


class MessageEvent(_Answer, frozen=True, kw_only=True):
    """The data of an event of a streamed answer; what else is in it goes by its type."""

    type: Literal[
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    ]


class TokenCount(_Answer, frozen=True, kw_only=True):
    """How many tokens a prompt has."""

    input_tokens: int
