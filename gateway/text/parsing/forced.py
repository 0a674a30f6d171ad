"""Required calls: guided decoding makes any model write them as JSON."""

from typing import Any

from gateway.text.parsing.call_ids import new_call_id
from gateway.text.parsing.call_machine import names_of
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Text
from gateway.text.parsing.json_calls import JsonCalls
from gateway.text.parsing.lifted_schemas import lifted
from gateway.text.parsing.offered_tools import ToolChoice, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import arguments_schema


def forced_parser(use: ToolUse) -> OutputParser:
    """The parser for an answer guided by `forced_schema`."""
    if use.choice is ToolChoice.NAMED:
        return NamedCall(use.named)
    return RequiredCalls(names_of(use), parallel=use.parallel)


def forced_schema(use: ToolUse) -> dict[str, Any]:
    """The schema for guided decoding: the named tool's arguments, or an array of objects with name and arguments."""
    if use.choice is ToolChoice.NAMED:
        return next(arguments_schema(tool) for tool in use.tools if tool.name == use.named)
    definitions: dict[str, Any] = {}
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": [tool.name]},
                "arguments": lifted(
                    arguments_schema(tool), tool.name, f"#/items/anyOf/{place}/properties/arguments", definitions
                ),
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for place, tool in enumerate(use.tools)
    ]
    schema: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"anyOf": calls}}
    if not use.parallel:
        schema["maxItems"] = 1
    if definitions:
        schema["$defs"] = definitions
    return schema


class NamedCall:
    """Reads the whole answer as the arguments of one tool."""

    __slots__ = ("_name", "_started", "thinking")

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = False
        #: See `OutputParser`.
        self.thinking = False

    def flow(self) -> Delta | None:
        return CallArguments(0, "") if self._started else None

    def feed(self, text: str) -> list[Delta]:
        if self._started:
            return [CallArguments(0, text)] if text else []
        if not text:
            return []
        self._started = True
        return [CallStart(0, new_call_id(), self._name), CallArguments(0, text)]

    def finish(self) -> list[Delta]:
        return []


class RequiredCalls(JsonCalls):
    """Reads an array of calls, or one call without an array; what follows is text."""

    __slots__ = ()

    SURE = True

    def finish(self) -> list[Delta]:
        # What is left of an answer that was cut before a call's name is the guide's, not the model's words.
        return [delta for delta in super().finish() if not isinstance(delta, Text)]

    def __init__(self, names: list[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._raw = []
        self._next(self._array)

    def _array(self, text: str, at: int, out: list[Delta]) -> int:
        self._next(self._object)
        return at + (text[at] == "[")

    def _text(self, text: str, at: int, out: list[Delta]) -> int:
        """Reads calls at the answer's start only."""
        out.append(Text(text[at:]))
        return len(text)

    def _object_ended(self) -> None:
        self._next(self._listing)
