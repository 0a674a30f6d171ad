"""Translate a body of the Messages API to a chat completion's."""

from typing import Any, Final, NamedTuple

import msgspec

from gateway.api.anthropic.error_paths import Origin
from gateway.api.anthropic.messages_body import JsonFormat, MessagesBody, PromptBody, ThinkingEnabled
from gateway.api.anthropic.messages_decoding import invalid
from gateway.api.anthropic.messages_tools import ChatTools, chat_tools
from gateway.api.anthropic.thinking import chat_thinking
from gateway.api.anthropic.turns import Conversation
from protos.errors import InvalidRequest

_FORMAT_NAME: Final = "answer"


class Translation(NamedTuple):
    """The chat's body, the places that its messages and tools come from, and what became of tools."""

    body: bytes
    origins: list[Origin]
    tools: ChatTools


def translate_prompt(body: PromptBody, variables: frozenset[str] | None, *, drop: bool = False) -> Translation:
    """Translate the prompt, without the parameters of its answer. `variables` are those of the chat template, None
    where they are unknown. Raises InvalidRequest and UnsupportedParameter.
    """
    chat, origins, tools = _prompt(body, variables, drop=drop)
    return Translation(msgspec.json.encode(chat), origins, tools)


def translate(body: MessagesBody, variables: frozenset[str] | None, *, drop: bool = False) -> Translation:
    """Translate the whole request. Raises InvalidRequest and UnsupportedParameter."""
    thinking = body.thinking
    if isinstance(thinking, ThinkingEnabled) and thinking.budget_tokens >= body.max_tokens:
        raise invalid("max_tokens", "It has to be more than thinking.budget_tokens.")
    chat, origins, tools = _prompt(body, variables, drop=drop)
    chat["max_tokens"] = body.max_tokens
    if body.stream:
        chat["stream"] = True
    if body.stop_sequences:
        chat["stop"] = body.stop_sequences
    if body.temperature is not None:
        chat["temperature"] = body.temperature
    if body.top_p is not None:
        chat["top_p"] = body.top_p
    if body.top_k:
        chat["top_k"] = body.top_k
    if body.metadata is not None and body.metadata.user_id is not None:
        chat["user"] = body.metadata.user_id
    return Translation(msgspec.json.encode(chat), origins, tools)


def _prompt(
    body: PromptBody, variables: frozenset[str] | None, *, drop: bool
) -> tuple[dict[str, Any], list[Origin], ChatTools]:
    conversation = Conversation()
    conversation.add_system(body.system, "system")
    conversation.add_messages(body.messages)
    chat: dict[str, Any] = {"model": body.model, "messages": conversation.messages}
    tools = chat_tools(body, drop=drop)
    chat |= tools.fields
    chat |= chat_thinking(body, variables)
    format_ = _format(body)
    if format_ is not None:
        schema = {"name": _FORMAT_NAME, "schema": format_.schema, "strict": _is_strict(format_.schema)}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat, conversation.origins, tools


def _is_strict(schema: dict[str, Any]) -> bool:
    """Whether a schema is strict in OpenAI's sense. Anthropic takes more; replicas that guide answers follow both."""
    from gateway.text.schemas.schema_checks import check_schema

    try:
        check_schema(schema, "", strict=True)
    except InvalidRequest:
        return False
    return True


def _format(body: PromptBody) -> JsonFormat | None:
    within = None if body.output_config is None else body.output_config.format
    if within is not None and body.output_format is not None:
        raise invalid("output_format", "It says the same as output_config.format; only one of them may be there.")
    return within or body.output_format
