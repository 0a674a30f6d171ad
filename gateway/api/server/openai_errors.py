"""Errors in OpenAI's form (API reference, error codes), as a body and as a stream's event."""

import msgspec

from protos.errors import PenstockError


class ErrorObject(msgspec.Struct, frozen=True):
    """The error. `type` and `code` are for programs, `param` names the part of the request at fault."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(msgspec.Struct, frozen=True):
    """The body of every answer with a status of 400 or more."""

    error: ErrorObject


def error_body(error: PenstockError) -> bytes:
    """Encode an error as `{"error": {"message", "type", "param", "code"}}`."""
    return msgspec.json.encode(Error(ErrorObject(error.message, error.type, error.param, error.code)))


def error_event(error: PenstockError) -> bytes:
    """Encode the last event of a broken stream; no `[DONE]` follows, since that would look like success."""
    return b"data: " + error_body(error) + b"\n\n"
