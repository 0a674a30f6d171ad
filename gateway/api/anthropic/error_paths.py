"""Map the parameters of a chat's body back to Anthropic's, for error messages."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from protos.errors import PenstockError

_MESSAGE: Final = re.compile(r"messages\[(\d+)\](?:\.(content|tool_calls)\[(\d+)\])?(.*)", re.DOTALL)
_TOOL: Final = re.compile(r"tools\[(\d+)\](?:\.function)?(.*)", re.DOTALL)
_INDEX: Final = re.compile(r"\[(\d+)\]")
#: Members of chat messages and the Anthropic members that they come from.
_MEMBERS: Final = ((".function", ""), (".arguments", ".input"), (".tool_call_id", ".tool_use_id"))
#: Prefixes of the chat's parameters and of Anthropic's.
_RENAMED: Final = (
    ("response_format.json_schema.schema", "output_config.format.schema"),
    ("response_format", "output_config.format"),
    ("max_completion_tokens", "max_tokens"),
    ("stop", "stop_sequences"),
    ("user", "metadata.user_id"),
    ("reasoning_effort", "output_config.effort"),
    ("chat_template_kwargs", "thinking"),
    ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
)


#: Parameters of a chat's body in a message, and words of the chat API and Anthropic's.
_QUOTED: Final = re.compile(
    r"'((?:messages|tools|tool_choice|" + "|".join(re.escape(name) for name, _ in _RENAMED) + r")(?:[.\[][^']*)?)'"
)
_WORDS: Final = (("type 'image_url'", "type 'image'"), ("type 'file'", "type 'document'"))


class Origin(NamedTuple):
    """The places that a chat message, its content parts and its calls come from."""

    place: str
    parts: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


def place_of(param: str, origins: list[Origin], tools: Sequence[str] = ()) -> str:
    """Give the place in this API's body that a parameter of the chat's body comes from."""
    if found := _MESSAGE.fullmatch(param):
        number, member, position, rest = found.groups()
        return _dotted(_of_message(origins, int(number), member, position, rest))
    if found := _TOOL.fullmatch(param):
        number, rest = found.groups()
        place = tools[int(number)] if int(number) < len(tools) else f"tools.{number}"
        return _dotted(f"{place}{rest.replace('.parameters', '.input_schema', 1)}")
    for name, ours in _RENAMED:
        if param == name or param.startswith((f"{name}.", f"{name}[")):
            return _dotted(ours + param[len(name) :])
    return _dotted(param)


def _of_message(origins: list[Origin], number: int, member: str | None, position: str | None, rest: str) -> str:
    if number >= len(origins):
        return "messages"
    origin = origins[number]
    if origin.place == "system":
        return origin.place
    for name, ours in _MEMBERS:
        rest = rest.replace(name, ours, 1)
    if member is None or position is None:
        return origin.place + rest.replace(".reasoning_content", ".content", 1)
    places = origin.parts if member == "content" else origin.calls
    place = places[int(position)] if int(position) < len(places) else origin.place
    # The only thing that can be wrong with an image or a file is its source.
    return f"{place}.source" if rest.startswith((".image_url", ".file")) else place + rest


def _dotted(place: str) -> str:
    return _INDEX.sub(r".\1", place)


def to_messages_error(error: PenstockError, origins: list[Origin], tools: Sequence[str] = ()) -> None:
    """Rewrite an error about the chat's body so that it is about this API's; `tools` are the places of the chat's."""
    if error.param in (None, "model"):
        return
    place = place_of(error.param, origins, tools)
    told = _QUOTED.sub(lambda found: f"'{place_of(found[1], origins, tools)}'", error.message)
    for theirs, ours in _WORDS:
        told = told.replace(theirs, ours)
    error.message = told if told != error.message else f"{place}: {error.message}"
    error.param = place
