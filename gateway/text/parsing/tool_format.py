"""The tool call format of one model family."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from gateway.text.parsing.call_machine import names_of
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import CallForm


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A family's tool calls. `marks` are as in `OutputFormat`; `ends_thought` are those that end unclosed reasoning.

    `trigger` and `forms` are for structural tags; empty if arguments are no JSON, or the text before them varies.
    `bare`: a call is a JSON object that starts the answer, without a marker.
    """

    marks: frozenset[str]
    new_parser: Callable[[ToolUse], OutputParser]
    trigger: str = ""
    forms: tuple[CallForm, ...] = ()
    ends_thought: tuple[str, ...] = ()
    bare: bool = False


class NamesParser(Protocol):
    """Makes a parser from the names of the tools."""

    def __call__(self, names: Collection[str], *, parallel: bool) -> OutputParser: ...


def by_name(new: NamesParser) -> Callable[[ToolUse], OutputParser]:
    """Adapt a parser of names to one of a `ToolUse`."""
    return lambda use: new(names_of(use), parallel=use.parallel)
