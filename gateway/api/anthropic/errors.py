"""Errors in the form of Anthropic's API (API reference, Errors), as a body and as a stream's event."""

from typing import Final

import msgspec

from protos.errors import Overloaded, PenstockError, QuotaExceeded, ReplicaUnavailable

_BY_STATUS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}


class AnthropicErrorDetails(msgspec.Struct, frozen=True):
    """A detail that Anthropic's API lacks: OpenAI's code of the error."""

    error_code: str


class AnthropicErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error."""

    type: str
    message: str
    details: AnthropicErrorDetails | None = None


class AnthropicError(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """The body of every answer with a status of 400 or more, in Anthropic's API."""

    error: AnthropicErrorObject
    request_id: str | None


def error_type(error: PenstockError) -> str:
    """Give the error's type in Anthropic's API; the status is unchanged."""
    if isinstance(error, QuotaExceeded):
        return "billing_error"
    found = _BY_STATUS.get(error.status)
    if found is not None:
        return found
    if isinstance(error, Overloaded | ReplicaUnavailable):
        return "overloaded_error"
    return "invalid_request_error" if error.status < 500 else "api_error"


def error_body(error: PenstockError, request_id: str) -> bytes:
    """Encode `{"type": "error", "error": {"type", "message", "details": {"error_code"}}, "request_id"}`."""
    details = None if error.code is None else AnthropicErrorDetails(error.code)
    shown = AnthropicErrorObject(error_type(error), error.message, details)
    return msgspec.json.encode(AnthropicError(shown, request_id or None))


def error_event(error: PenstockError, request_id: str) -> bytes:
    """Encode the last event of a broken stream."""
    return b"event: error\ndata: " + error_body(error, request_id) + b"\n\n"
