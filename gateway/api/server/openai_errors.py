"""Errors as OpenAI's API renders them (API reference, error codes), as a body and as a stream's event."""

import msgspec

from protos.errors import PenstockError


class ErrorObject(msgspec.Struct, frozen=True):
    """What went wrong. `type` and `code` are for programs, `param` names what of the request is at fault."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(msgspec.Struct, frozen=True):
    """The body of every answer with a status of 400 or more."""

    error: ErrorObject


def error_body(error: PenstockError) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`."""
    return msgspec.json.encode(Error(ErrorObject(error.message, error.type, error.param, error.code)))


def error_event(error: PenstockError) -> bytes:
    """The last event of a stream that broke; no `[DONE]` follows, for that would look like success."""
    return b"data: " + error_body(error) + b"\n\n"
