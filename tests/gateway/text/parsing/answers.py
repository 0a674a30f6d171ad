"""Answers fed to parsers in pieces, and what has come of them in short."""

from collections.abc import Iterable
from typing import NamedTuple

from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser

WEATHER = Tool(
    "get_weather",
    "The weather somewhere",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "options": {"type": "object"},
            "unit": {"enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
)
SEARCH = Tool("search", None, {"type": "object", "properties": {"query": {"type": "string"}}})
CLOCK = Tool("time_now")
USE = ToolUse((WEATHER, SEARCH, CLOCK))
SINGLE = ToolUse((WEATHER, SEARCH, CLOCK), parallel=False)


class Call(NamedTuple):
    """A tool call as a whole."""

    name: str
    arguments: str
    #: Empty where the model gives none.
    id: str = ""


class Answer(NamedTuple):
    """All that an answer was taken apart into."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


def fed(parser: OutputParser, pieces: Iterable[str]) -> list[Delta]:
    """All deltas of an answer."""
    out: list[Delta] = []
    for piece in pieces:
        out += parser.feed(piece)
    return out + parser.finish()


def joined(deltas: list[Delta]) -> list[Delta]:
    """Neighbours of a kind joined, and ids of calls by their place."""
    out: list[Delta] = []
    ids: list[str] = []
    for delta in deltas:
        last = out[-1] if out else None
        if isinstance(delta, CallStart):
            assert delta.id not in ids
            ids.append(delta.id)
            out.append(CallStart(delta.call, str(len(ids)), delta.name))
        elif isinstance(delta, CallArguments):
            assert delta.text
            if isinstance(last, CallArguments):
                assert last.call == delta.call
                out[-1] = CallArguments(delta.call, last.text + delta.text)
            else:
                assert isinstance(last, CallStart)
                assert last.call == delta.call
                out.append(delta)
        elif isinstance(last, Text | Reasoning) and type(last) is type(delta):
            out[-1] = last._replace(text=last.text + delta.text)
        else:
            assert delta.text
            out.append(delta)
    return out


def answer(parser: OutputParser, *pieces: str, ids: bool = False) -> Answer:
    """The answer in short; calls without ids unless they are wanted."""
    text = reasoning = ""
    calls: list[Call] = []
    for delta in fed(parser, pieces):
        if isinstance(delta, Text):
            text += delta.text
        elif isinstance(delta, Reasoning):
            reasoning += delta.text
        elif isinstance(delta, CallStart):
            assert delta.call == len(calls)
            calls.append(Call(delta.name, "", delta.id if ids else ""))
        else:
            assert delta.call == len(calls) - 1
            calls[-1] = calls[-1]._replace(arguments=calls[-1].arguments + delta.text)
    return Answer(text, reasoning, tuple(calls))
