"""Errors as Anthropic's API renders them (API reference, Errors), as a body and as a stream's event."""

from typing import Final

import orjson

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


def error_type(error: PenstockError) -> str:
    """Its name in Anthropic's API; the status stays ours."""
    if isinstance(error, QuotaExceeded):
        return "billing_error"
    found = _BY_STATUS.get(error.status)
    if found is not None:
        return found
    if isinstance(error, Overloaded | ReplicaUnavailable):
        return "overloaded_error"
    return "invalid_request_error" if error.status < 500 else "api_error"


def error_body(error: PenstockError, request_id: str) -> bytes:
    """`{"type": "error", "error": {"type", "message", "details": {"error_code"}}, "request_id"}`; the code is ours."""
    shown: dict[str, object] = {"type": error_type(error), "message": error.message}
    if error.code is not None:
        shown["details"] = {"error_code": error.code}
    return orjson.dumps({"type": "error", "error": shown, "request_id": request_id or None})


def error_event(error: PenstockError, request_id: str) -> bytes:
    """The last event of a stream that broke."""
    return b"event: error\ndata: " + error_body(error, request_id) + b"\n\n"
