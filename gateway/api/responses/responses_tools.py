"""Translate tools of the Responses API to a chat's: functions, alone and in namespaces.

No model here has those that OpenAI runs itself, and custom ones.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from gateway.api.server.body_decoder import MAX_ECHO, read_part
from protos.errors import InvalidRequest, UnsupportedParameter

_CHOICES: Final = ("none", "auto", "required")
#: The form of a tool's type, so that it can be told in a header.
_KIND: Final = re.compile(r"[a-z0-9_]{1,64}")

#: What became of a tool, at the end of its note.
_IGNORED: Final = ":ignored"
_MOST_NAMED: Final = 10
#: Characters of the names of a chat's functions, and their greatest length.
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 128


class _FunctionTool(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    name: Annotated[str, Meta(min_length=1)]
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    waits_not: bool | None = msgspec.field(default=None, name="async")


class _Namespace(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    tools: list[dict[str, Any]]


class _NamedChoice(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    name: Annotated[str, Meta(min_length=1)]


class _AllowedTools(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    mode: str
    tools: list[dict[str, Any]]


class NamedTool(NamedTuple):
    """A function by its own name, and that of the namespace it is in."""

    namespace: str | None
    name: str


class ChatTools(NamedTuple):
    """A chat's `tools` and `tool_choice`, where given; which function each name in it stands for, if not for itself;
    and what became of tools that no model here can have.
    """

    fields: dict[str, Any]
    #: The places in the body that the chat's tools come from.
    places: tuple[str, ...] = ()
    namespaced: Mapping[str, NamedTool] = MappingProxyType({})
    adjusted: tuple[str, ...] = ()
    #: The chat's names of functions in namespaces.
    chat_names: Mapping[NamedTool, str] = MappingProxyType({})

    def chat_name(self, namespace: str | None, name: str) -> str:
        """Give the chat's name of a function."""
        return name if namespace is None else self.chat_names.get(NamedTool(namespace, name), name)


def chat_tools(
    tools: list[dict[str, Any]] | None, choice: str | dict[str, Any] | None, *, drop: bool = False
) -> ChatTools:
    """Translate tools. Those of a namespace are functions like others, by a longer name where two have the same.

    With `drop`, tools that are no functions are left out: coding agents offer OpenAI's own with every request. Raises
    InvalidRequest or UnsupportedParameter.
    """
    offered: list[dict[str, Any]] = []
    places: list[str] = []
    namespaced: dict[str, NamedTool] = {}
    adjusted: list[str] = []
    chat_names: dict[NamedTool, str] = {}
    functions = [tool.get("name") for tool in tools or () if tool.get("type") == "function"]
    taken = {name for name in functions if isinstance(name, str)}
    for position, tool in enumerate(tools or ()):
        where, kind = f"tools[{position}]", tool.get("type")
        if kind == "namespace":
            group = read_part(tool, _Namespace, where)
            described = group.description
            for place, inner in enumerate(group.tools):
                at = f"{where}.tools[{place}]"
                if _is_dropped(inner, drop, at, adjusted):
                    continue
                function = _function(inner, at)
                name = function["function"]["name"]
                chat = _free_name(group.name, name, taken)
                function["function"]["name"] = chat
                if described:
                    # A chat has no place for it but this, and the model is to read it.
                    own = function["function"].get("description")
                    function["function"]["description"] = f"{described}\n\n{own}" if own else described
                    described = None
                namespaced[chat] = NamedTool(group.name, name)
                chat_names.setdefault(namespaced[chat], chat)
                offered.append(function)
                places.append(at)
        elif not _is_dropped(tool, drop, where, adjusted):
            offered.append(_function(tool, where))
            places.append(where)
    chosen = _choice(choice)
    if isinstance(chosen, _AllowedTools):
        everything = dict(zip(map(id, offered), places, strict=True))
        offered, chosen = _allowed(offered, chosen, namespaced, drop=drop)
        places = [everything[id(tool)] for tool in offered]
    if chosen == "required" and not offered and adjusted:
        found = dict.fromkeys(note.partition("=")[2].removesuffix(_IGNORED) for note in adjusted)
        kinds = ", ".join(list(found)[:_MOST_NAMED])
        raise UnsupportedParameter(
            f"Unsupported value: 'tool_choice' may not be 'required' here, for none of the tools can be had: {kinds}. "
            "Only functions can be called here.",
            param="tool_choice",
        )
    fields: dict[str, Any] = {"tools": offered} if offered else {}
    if chosen is not None and (offered or chosen != "auto"):
        fields["tool_choice"] = chosen
    return ChatTools(fields, tuple(places), namespaced, tuple(adjusted), chat_names)


def _free_name(namespace: str, name: str, taken: set[str]) -> str:
    """Give a function of a namespace a name in the chat that no other has, and add it to those."""
    chat = name
    if name in taken:
        # Chats know fewer characters, and fewer of them, than namespaces.
        chat = _NO_NAME.sub("_", f"{namespace}__{name}")[-_LONGEST_NAME:]
        number = 2
        while chat in taken:
            ending = f"_{number}"
            chat = f"{_NO_NAME.sub('_', f'{namespace}__{name}')[-_LONGEST_NAME + len(ending) :]}{ending}"
            number += 1
    taken.add(chat)
    return chat


def _is_dropped(tool: dict[str, Any], drop: bool, where: str, adjusted: list[str]) -> bool:
    kind = tool.get("type")
    if not drop or not isinstance(kind, str) or kind in ("function", "namespace") or not _KIND.fullmatch(kind):
        return False
    adjusted.append(f"{where}={kind}{_IGNORED}")
    return True


def shown_tools(tools: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Make the tools as the response repeats them: `strict` defaults to false."""
    return [_shown_tool(tool) for tool in tools or ()]


def _shown_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
        return tool | {"tools": shown_tools(tool["tools"])}
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, "strict": False, **tool}


def _function(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind != "function":
        if not isinstance(kind, str):
            raise InvalidRequest(f"Missing required parameter: '{where}.type'.", param=f"{where}.type")
        raise UnsupportedParameter(
            f"Unsupported value: '{where}.type' may not be '{kind[:MAX_ECHO]}'; only functions can be called here.",
            param=f"{where}.type",
        )
    found = read_part(tool, _FunctionTool, where)
    if found.defer_loading:
        raise _unsupported(f"{where}.defer_loading")
    if found.allowed_callers is not None and found.allowed_callers != ["direct"]:
        raise _unsupported(f"{where}.allowed_callers")
    if found.waits_not:
        raise _unsupported(f"{where}.async")
    function: dict[str, Any] = {"name": found.name}
    if found.description is not None:
        function["description"] = found.description
    if found.parameters is not None:
        function["parameters"] = found.parameters
    if found.strict is not None:
        function["strict"] = found.strict
    return {"type": "function", "function": function}


def _choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | _AllowedTools | None:
    if choice is None:
        return None
    if isinstance(choice, str):
        if choice not in _CHOICES:
            raise InvalidRequest(
                f"Invalid value for 'tool_choice': '{choice[:MAX_ECHO]}' is none of {', '.join(_CHOICES)}.",
                param="tool_choice",
            )
        return choice
    kind = choice.get("type")
    if kind == "function":
        return {"type": "function", "function": {"name": read_part(choice, _NamedChoice, "tool_choice").name}}
    if kind == "allowed_tools":
        return read_part(choice, _AllowedTools, "tool_choice")
    raise UnsupportedParameter(
        f"Unsupported value: 'tool_choice.type' may not be '{str(kind)[:MAX_ECHO]}' here.", param="tool_choice.type"
    )


def _allowed(
    offered: list[dict[str, Any]], choice: _AllowedTools, namespaced: Mapping[str, NamedTool], *, drop: bool
) -> tuple[list[dict[str, Any]], str]:
    """Reduce the offer to the allowed tools: functions, or all those of a namespace."""
    if choice.mode not in ("auto", "required"):
        raise InvalidRequest(
            f"Invalid value for 'tool_choice.mode': '{choice.mode[:MAX_ECHO]}' is neither auto nor required.",
            param="tool_choice.mode",
        )
    known = {tool["function"]["name"]: tool for tool in offered}
    groups: dict[str | None, list[dict[str, Any]]] = {}
    for chat, one in namespaced.items():
        groups.setdefault(one.namespace, []).append(known[chat])
    allowed: list[dict[str, Any]] = []
    for position, tool in enumerate(choice.tools):
        name = tool.get("name")
        if tool.get("type") == "namespace" and isinstance(name, str) and name in groups:
            allowed += groups[name]
            continue
        if drop and tool.get("type") != "function":
            continue
        found = known.get(name) if tool.get("type") == "function" and isinstance(name, str) else None
        if found is None:
            param = f"tool_choice.tools[{position}]"
            raise InvalidRequest(f"Invalid value for '{param}': it is none of 'tools'.", param=param)
        allowed.append(found)
    return allowed, choice.mode


def _unsupported(param: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
