"""Translate a request for a response to a chat completion's body."""

from collections.abc import Iterable
from typing import Any

from gateway.api.responses.chat_messages import Messages
from gateway.api.responses.client_json import encoded_json
from gateway.api.responses.errors import Origins
from gateway.api.responses.responses_body import CHAT_FIELDS, CreateBody, Prompting, TextFormat
from gateway.api.responses.responses_tools import ChatTools
from protos.errors import InvalidRequest


def chat_fields(
    body: Prompting, tools: ChatTools, before: Iterable[dict[str, Any]], items: Iterable[dict[str, Any]]
) -> tuple[dict[str, Any], Origins]:
    """Make the chat fields of the prompt: items that came before, and those of the input. `tools` are the body's.

    Raises InvalidRequest or UnsupportedParameter.
    """
    messages = Messages(tools)
    if body.instructions is not None:
        messages.instruct(body.instructions)
    instructed = len(messages.messages)
    for item in before:
        messages.add(item, "previous_response_id")
    for position, item in enumerate(items):
        messages.add(item, "input" if isinstance(body.input, str) else f"input[{position}]")
    if len(messages.messages) == instructed and body.instructions is None:
        raise InvalidRequest("Missing required parameter: 'input'.", param="input")
    fields: dict[str, Any] = {"model": body.model, "messages": messages.messages}
    fields |= tools.fields
    if body.parallel_tool_calls is not None and "tools" in fields:
        fields["parallel_tool_calls"] = body.parallel_tool_calls
    if body.text is not None:
        fields |= _text_fields(body.text.format, body.text.verbosity)
    if body.reasoning is not None and body.reasoning.effort is not None:
        fields["reasoning_effort"] = body.reasoning.effort
    return fields, Origins(messages.origins, tools.places)


def chat_body(
    body: CreateBody,
    tools: ChatTools,
    before: Iterable[dict[str, Any]],
    items: Iterable[dict[str, Any]],
    *,
    stream: bool,
) -> tuple[bytes, Origins]:
    """Make the whole chat body, and say what it comes from. Raises InvalidRequest or UnsupportedParameter."""
    fields, origins = chat_fields(body, tools, before, items)
    if body.max_output_tokens is not None:
        fields["max_completion_tokens"] = body.max_output_tokens
    # Members of `reasoning` and `text` say the same, and count.
    if body.reasoning_effort is not None:
        fields.setdefault("reasoning_effort", body.reasoning_effort)
    if body.text is None or body.text.verbosity is None:
        fields |= _verbosity(body.verbosity)
    for name in CHAT_FIELDS:
        value = getattr(body, name)
        if value is not None:
            fields[name] = value
    if body.logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": body.logprobs}
    if stream:
        fields["stream"] = True
    return encoded_json(fields), origins


def _verbosity(verbosity: str | None) -> dict[str, Any]:
    # The default is left out: an upstream may not know the parameter.
    return {} if verbosity in (None, "medium") else {"verbosity": verbosity}


def _text_fields(form: TextFormat | None, verbosity: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    fields |= _verbosity(verbosity)
    if form is not None and form.type == "json_object":
        fields["response_format"] = {"type": "json_object"}
    elif form is not None and form.type == "json_schema":
        given = {"name": form.name, "description": form.description, "schema": form.schema, "strict": form.strict}
        schema = {name: value for name, value in given.items() if value is not None}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields
