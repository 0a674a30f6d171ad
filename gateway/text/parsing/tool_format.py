"""How the models of one family call tools."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from gateway.text.parsing.call_machine import names_of
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import CallForm


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A family's calls. `marks` are as in `OutputFormat`; `ends_thought` are those that end an unclosed thought.

    `trigger` and `forms` are for structural tags; empty where arguments are no JSON, or what is before them varies.
    `bare`: a call is a JSON object that begins the answer, with nothing to mark it.
    """

    marks: frozenset[str]
    new_parser: Callable[[ToolUse], OutputParser]
    trigger: str = ""
    forms: tuple[CallForm, ...] = ()
    ends_thought: tuple[str, ...] = ()
    bare: bool = False


class NamesParser(Protocol):
    """Makes a parser that needs to know the names of the tools only."""

    def __call__(self, names: Collection[str], *, parallel: bool) -> OutputParser:
        """A new one."""
        ...


def by_name(new: NamesParser) -> Callable[[ToolUse], OutputParser]:
    """The same, of all that is offered."""
    return lambda use: new(names_of(use), parallel=use.parallel)
