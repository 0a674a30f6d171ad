"""Tools that a request offers to the model."""

import enum
from typing import Any

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """A function that the model may call. `parameters` is the JSON schema of its arguments; None: it takes none."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False


class ToolChoice(enum.Enum):
    """Whether the model must call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


class ToolUse(msgspec.Struct, frozen=True):
    """The offered tools and how the model may use them. `named` is the tool that it must call, with `NAMED`.

    Without `parallel` an answer has at most one call.
    """

    tools: tuple[Tool, ...]
    choice: ToolChoice = ToolChoice.AUTO
    named: str = ""
    parallel: bool = True


def offered(use: ToolUse | None) -> ToolUse | None:
    """The tools, unless none may be called."""
    return use if use is not None and use.tools and use.choice is not ToolChoice.NONE else None
