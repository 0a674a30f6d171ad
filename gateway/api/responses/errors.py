"""Errors of the Responses API: the chat's errors with this API's parameter names, and error events."""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_TOOL: Final = re.compile(r"tools\[(\d+)\](?:\.function\b)?")
_CHOICE: Final = re.compile(r"tool_choice\.function\b")
#: Parameters of a chat's body in a message, and words of the chat API and of this one.
_QUOTED: Final = re.compile(
    r"'((?:messages|tools|tool_choice|" + "|".join(map(re.escape, _NAMES)) + r")(?:[.\[][^']*)?)'"
)
_WORDS: Final = (
    ("type 'image_url'", "type 'input_image'"),
    ("type 'file'", "type 'input_file'"),
)


class Origins(NamedTuple):
    """The places in the body that the chat's messages and tools come from."""

    messages: Sequence[str] = ()
    tools: Sequence[str] = ()


NO_ORIGINS: Final = Origins()


def to_responses_error(error: PenstockError, origins: Origins | None = NO_ORIGINS) -> PenstockError:
    """Rename the parameters in a chat's error to those that they were made from.

    Without `origins` there was no chat yet: what is named is the client's own.
    """
    if error.param is None or origins is None:
        return error
    told = _QUOTED.sub(lambda found: f"'{_renamed(found[1], origins)}'", error.message)
    for theirs, ours in _WORDS:
        told = told.replace(theirs, ours)
    error.param = _renamed(error.param, origins)
    error.message = told
    error.args = (told,)
    return error


def _renamed(param: str, origins: Origins) -> str:
    if found := _MESSAGE.match(param):
        place = _place(origins.messages, found[1])
        # A chat's message has the parts of its item; calls are items of their own.
        rest = param[found.end() :].replace(".tool_call_id", ".call_id")
        return place + rest if place.endswith("]") and "tool_calls" not in rest else place or "input"
    if found := _TOOL.match(param):
        place = _place(origins.tools, found[1]) or f"tools[{found[1]}]"
        return place + param[found.end() :]
    if found := _CHOICE.match(param):
        return "tool_choice" + param[found.end() :]
    for theirs, ours in _NAMES.items():
        if param == theirs or param.startswith((f"{theirs}.", f"{theirs}[")):
            return ours + param[len(theirs) :]
    return param


def _place(places: Sequence[str], number: str) -> str:
    return places[int(number)] if int(number) < len(places) else ""


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
