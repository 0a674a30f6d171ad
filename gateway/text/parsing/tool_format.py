"""The tool call format of one model family."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.text.parsing.call_machine import names_of
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import CallForm, json_arguments


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A family's tool calls. `marks` are as in `OutputFormat`; `ends_thought` are those that end unclosed reasoning.

    `triggers` and `forms` are for structural tags (see `strict_tag`); a family without forms has none.
    `bare`: a call is a JSON object that starts the answer, without a marker. `rewritten` turns arguments in JSON into
    what stands in a call of the first form; None: they are written as they are.
    """

    marks: frozenset[str]
    new_parser: Callable[[ToolUse], OutputParser]
    triggers: tuple[str, ...] = ()
    forms: tuple[CallForm, ...] = ()
    ends_thought: tuple[str, ...] = ()
    bare: bool = False
    rewritten: Callable[[str], str] | None = None

    @property
    def writes(self) -> bool:
        """Whether calls can be written as the family's models do."""
        return bool(self.forms) and (self.rewritten is not None or self.forms[0].arguments is json_arguments)

    def written(self, calls: Sequence[tuple[str, str]], mark: Callable[[str], str]) -> str:
        """Write calls by name and arguments as JSON text; `mark` takes text that may have control tokens in it."""
        form = self.forms[0]
        parts = [mark(form.begin)]
        for place, (name, arguments) in enumerate(calls):
            parts += [mark((form.separator if place else "") + form.opening), name, mark(form.middles[0])]
            parts += [arguments if self.rewritten is None else self.rewritten(arguments), mark(form.closing)]
        return "".join([*parts, mark(form.end)])


class NamesParser(Protocol):
    """Makes a parser from the names of the tools."""

    def __call__(self, names: Collection[str], *, parallel: bool) -> OutputParser: ...


def by_name(new: NamesParser) -> Callable[[ToolUse], OutputParser]:
    """Adapt a parser of names to one of a `ToolUse`."""
    return lambda use: new(names_of(use), parallel=use.parallel)
