"""Write the response object: the request's parameters, the status and the output."""

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from gateway.api.responses.responses_body import CreateBody
from gateway.api.responses.responses_tools import shown_tools
from gateway.api.writers.api_adapter import Counts
from protos.errors import PenstockError
from protos.types import FinishReason

RESPONSE_PREFIX: Final = "resp_"
_REASONS: Final = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}


class Outcome(msgspec.Struct, frozen=True):
    """The status of a response. `reason` says why it is incomplete."""

    status: str
    reason: str | None = None
    error: PenstockError | None = None

    @classmethod
    def of(cls, finish: FinishReason) -> "Outcome":
        """Make the outcome of an answer that came to its end."""
        reason = _REASONS.get(finish)
        return cls("completed") if reason is None else cls("incomplete", reason)


IN_PROGRESS: Final = Outcome("in_progress")
QUEUED: Final = Outcome("queued")


def error_code(error: PenstockError) -> str:
    """Give the API's code of a failed response; it has few."""
    if error.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.status < 500 else "server_error"


class ResponseForm:
    """One response's JSON; its constant part is encoded once."""

    def __init__(self, body: CreateBody, suffix: str, created: int, model: str, *, stored: bool) -> None:
        """`suffix` is common to the ids of all parts."""
        self.suffix = suffix
        self.id = RESPONSE_PREFIX + suffix
        self.created = created
        self._same = orjson.dumps(_same(body, model, stored=stored))[1:]

    def write(self, outcome: Outcome, output: Sequence[dict[str, Any]] = (), counts: Counts | None = None) -> bytes:
        """Encode the response in its present state."""
        error = outcome.error
        fields = {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": outcome.status,
            "completed_at": int(time.time()) if outcome.status == "completed" else None,
            "error": None if error is None else {"code": error_code(error), "message": error.message},
            "incomplete_details": None if outcome.reason is None else {"reason": outcome.reason},
            "output": output,
            "usage": None if counts is None else usage_of(counts),
        }
        return orjson.dumps(fields)[:-1] + b"," + self._same


def _same(body: CreateBody, model: str, *, stored: bool) -> dict[str, Any]:
    text, reasoning = body.text, body.reasoning
    form: dict[str, Any] = {"type": "text"}
    if text is not None and text.format is not None:
        form = {name: value for name, value in msgspec.to_builtins(text.format).items() if value is not None}
    conversation = body.conversation_id
    return {
        "background": bool(body.background),
        "conversation": None if conversation is None else {"id": conversation},
        "frequency_penalty": body.frequency_penalty or 0.0,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": model,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "presence_penalty": body.presence_penalty or 0.0,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {
            "effort": None if reasoning is None else reasoning.effort,
            "summary": None if reasoning is None else reasoning.summary or reasoning.generate_summary,
        },
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": stored,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": form, "verbosity": (None if text is None else text.verbosity) or body.verbosity or "medium"},
        "tool_choice": "auto" if body.tool_choice is None else body.tool_choice,
        "tools": shown_tools(body.tools),
        "top_logprobs": body.top_logprobs or 0,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": "disabled",
        "user": body.user,
    }


def usage_of(counts: Counts) -> dict[str, Any]:
    """Make the API's `usage` object."""
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cache_write_tokens": counts.written, "cached_tokens": counts.cached},
        "output_tokens": counts.completion,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.prompt + counts.completion,
    }
