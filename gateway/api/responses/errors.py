"""Errors of the Responses API: the chat's errors with this API's parameter names, and error events."""

import re
from collections.abc import Callable
from typing import Final

import orjson

from gateway.api.server.error_form import ErrorForm
from gateway.api.server.openai_errors import error_body
from protos.errors import PenstockError

#: The chat's parameter names and this API's.
_NAMES: Final = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "messages": "input",
}
_TOOL: Final = re.compile(r"^(tools\[\d+\])\.function\b")
_CHOICE: Final = re.compile(r"^tool_choice\.function\b")


def to_responses_error(error: PenstockError) -> PenstockError:
    """Rename the parameter of a chat's error to the one that it was made from."""
    old = error.param
    if old is None:
        return error
    new = _CHOICE.sub("tool_choice", _TOOL.sub(r"\1", old))
    for theirs, ours in _NAMES.items():
        if new == theirs or new.startswith((f"{theirs}.", f"{theirs}[")):
            # Which item a message was made of is unknown here.
            new = ours if theirs == "messages" else ours + new[len(theirs) :]
            break
    if new != old:
        error.param = new
        error.message = error.message.replace(f"'{old}'", f"'{new}'")
        error.args = (error.message,)
    return error


def error_event(error: PenstockError, sequence: int = 0) -> bytes:
    """Encode the event of a stream that fails as a whole."""
    fields = {
        "type": "error",
        "sequence_number": sequence,
        "code": error.code,
        "message": error.message,
        "param": error.param,
    }
    return b"event: error\ndata: " + orjson.dumps(fields) + b"\n\n"


_event: Final[Callable[[PenstockError], bytes]] = error_event
RESPONSES_ERRORS: Final = ErrorForm(error_body, _event)
