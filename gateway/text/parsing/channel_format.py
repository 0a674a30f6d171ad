"""The format of models that write thoughts, text and calls in channels, so that even the plainest answer is parsed."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.text.parsing.offered_tools import ToolUse, offered
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import CallForm, Format, calls_or_answer_tag, strict_tag, tag_of


@dataclass(frozen=True, slots=True)
class ChannelFamily:
    """A family of such models. `marks`, `triggers` and `forms` are as in `ToolFormat`.

    `new_parser` takes the tools that may be called and the prompt's end. `answers` are texts that may stand before and
    after an answer in a format, and `thought` is what a thought before it is like. `opening` is what
    stands before a sample call that is read back.
    """

    marks: frozenset[str]
    new_parser: Callable[[ToolUse | None, str], OutputParser]
    triggers: tuple[str, ...] = ()
    forms: tuple[CallForm, ...] = ()
    answers: tuple[tuple[str, str], ...] = (("", ""),)
    thought: tuple[Format, ...] = ()
    opening: str = ""


class ChannelFormat:
    """The `OutputFormat` of such a family."""

    __slots__ = ("_family", "calls", "marks", "name")

    def __init__(self, name: str, family: ChannelFamily, *, calls: bool) -> None:
        self.name = name
        self.marks = family.marks
        self.calls = calls
        self._family = family

    def parser(self, use: ToolUse | None, prompt_end: str | None, *, whole: bool = False) -> OutputParser | None:
        del whole
        return self._family.new_parser(offered(use) if self.calls else None, prompt_end or "")

    def structural_tag(self, use: ToolUse) -> str | None:
        family = self._family
        return strict_tag(use, family.triggers, family.forms) if self.calls and family.forms else None

    def calls_or_answer_tag(self, use: ToolUse, answer: Format) -> str | None:
        family = self._family
        if not self.calls or not family.forms:
            return None
        answers = [tag_of(before, answer, after) for before, after in family.answers]
        return calls_or_answer_tag(use, family.forms, answers, family.thought)
