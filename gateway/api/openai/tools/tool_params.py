"""Tools in a request's body (OpenAI API reference, Chat: `tools`, `tool_choice`, `tool_calls`)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.tenants import END

MAX_TOOLS: Final = 128
MAX_CALLS: Final = 1024
_MAX_DESCRIPTION: Final = 64 * 1024

#: Restricted to ids: templates may show them, and filters do not scan them.
CallId = Annotated[str, Meta(pattern=rf"^[!-~]{{1,128}}{END}")]
_Type = Annotated[str, Meta(max_length=64)]
#: OpenAI's names have at most 64 characters, Anthropic's and those of MCP gateways 128.
_Name = Annotated[str, Meta(pattern=rf"^[a-zA-Z0-9_-]{{1,128}}{END}")]


class FunctionParam(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A function that a model may call."""

    name: _Name
    description: Annotated[str, Meta(max_length=_MAX_DESCRIPTION)] | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolParam(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A tool; types other than function are for upstreams of the API alone."""

    type: _Type
    function: FunctionParam | None = None
    custom: Any = None


class NameParam(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The name of a function."""

    name: Annotated[str, Meta(max_length=256)]


class ToolName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A tool by its name."""

    type: _Type
    function: NameParam | None = None
    custom: Any = None


class AllowedTools(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The allowed tools, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[ToolName], Meta(min_length=1, max_length=MAX_TOOLS)]


class ToolChoiceParam(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A tool that must be called, or those that may be."""

    type: _Type
    function: NameParam | None = None
    custom: Any = None
    allowed_tools: AllowedTools | None = None


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A called function; `arguments` are JSON text as the model wrote it, which need not be valid."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    arguments: str


class MessageCall(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A call in an assistant's message. `index` is part of a stream's chunks, which some clients send back whole."""

    id: CallId
    type: _Type = "function"
    function: CalledFunction | None = None
    custom: Any = None
    index: int | None = None


ToolsField = Annotated[list[ToolParam], Meta(max_length=MAX_TOOLS)]
ChoiceField = Literal["none", "auto", "required"] | ToolChoiceParam
CallsField = Annotated[list[MessageCall], Meta(max_length=MAX_CALLS)]
