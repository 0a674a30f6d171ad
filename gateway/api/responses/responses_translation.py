"""Translate a request for a response to a chat completion's body."""

from collections.abc import Iterable
from typing import Any

from gateway.api.responses.chat_messages import Messages
from gateway.api.responses.client_json import encoded_json
from gateway.api.responses.responses_body import CreateBody, Prompting, TextFormat
from gateway.api.responses.responses_tools import chat_tools
from protos.errors import InvalidRequest


def chat_fields(body: Prompting, before: Iterable[dict[str, Any]], items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Make the chat fields of the prompt: items that came before, and those of the input.

    Raises InvalidRequest or UnsupportedParameter.
    """
    messages = Messages()
    if body.instructions is not None:
        messages.instruct(body.instructions)
    instructed = len(messages.messages)
    for item in before:
        messages.add(item, "previous_response_id")
    for position, item in enumerate(items):
        messages.add(item, f"input[{position}]")
    if len(messages.messages) == instructed and body.instructions is None:
        raise InvalidRequest("Missing required parameter: 'input'.", param="input")
    fields: dict[str, Any] = {"model": body.model, "messages": messages.messages}
    fields |= chat_tools(body.tools, body.tool_choice)
    if body.parallel_tool_calls is not None and "tools" in fields:
        fields["parallel_tool_calls"] = body.parallel_tool_calls
    if body.text is not None:
        fields |= _text_fields(body.text.format, body.text.verbosity)
    if body.reasoning is not None and body.reasoning.effort is not None:
        fields["reasoning_effort"] = body.reasoning.effort
    return fields


def chat_body(
    body: CreateBody, before: Iterable[dict[str, Any]], items: Iterable[dict[str, Any]], *, stream: bool
) -> bytes:
    """Make the whole chat body. Raises InvalidRequest or UnsupportedParameter."""
    fields = chat_fields(body, before, items)
    for name, value in (
        ("max_completion_tokens", body.max_output_tokens),
        ("temperature", body.temperature),
        ("top_p", body.top_p),
        ("user", body.user),
        ("safety_identifier", body.safety_identifier),
    ):
        if value is not None:
            fields[name] = value
    if body.logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": body.logprobs}
    if stream:
        fields["stream"] = True
    return encoded_json(fields)


def _text_fields(form: TextFormat | None, verbosity: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    # The default is left out: an upstream may not know the parameter.
    if verbosity is not None and verbosity != "medium":
        fields["verbosity"] = verbosity
    if form is not None and form.type == "json_object":
        fields["response_format"] = {"type": "json_object"}
    elif form is not None and form.type == "json_schema":
        given = {"name": form.name, "description": form.description, "schema": form.schema, "strict": form.strict}
        schema = {name: value for name, value in given.items() if value is not None}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields
