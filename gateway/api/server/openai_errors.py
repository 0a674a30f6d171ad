"""Errors as OpenAI's API renders them (API reference, error codes), as a body and as a stream's event."""

import orjson

from protos.errors import PenstockError


def error_body(error: PenstockError) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`."""
    return orjson.dumps(
        {"error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code}}
    )


def error_event(error: PenstockError) -> bytes:
    """The last event of a stream that broke; no `[DONE]` follows, for that would look like success."""
    return b"data: " + error_body(error) + b"\n\n"
