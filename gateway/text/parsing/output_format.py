"""The output format seam: how one model writes reasoning and tool calls."""

from typing import Protocol

from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import Format


class OutputFormat(Protocol):
    """A model family's output format.

    `marks` are control tokens that the parser must see as text, by their names in the vocabulary; those that a
    vocabulary lacks are left out. `calls` says whether the family can call tools.
    """

    name: str
    marks: frozenset[str]
    calls: bool

    def parser(self, use: ToolUse | None, prompt_end: str | None, *, whole: bool = False) -> OutputParser | None:
        """Make a parser for one answer. None: such an answer is plain text.

        `use` None: no tools were offered (or none may be called). `prompt_end` is how the prompt ends, control tokens
        of `marks` included: if a template opens the reasoning there, the answer starts within it. None: the answer
        is guided, and has no reasoning but what it opens itself. `whole`: nothing of the answer is shown before its
        end, so that text may turn out to have been reasoning.
        """
        ...

    def structural_tag(self, use: ToolUse) -> str | None:
        """The guide for the arguments of strict tools in an answer, as a structural tag's JSON.

        None: no tool is strict, or the family's calls cannot be guided by a structural tag.
        """
        ...

    def calls_or_answer_tag(self, use: ToolUse, answer: Format) -> str | None:
        """The guide for an answer of calls of these tools or of `answer`, as a structural tag's JSON.

        Reasoning may come before either. None: the family's calls cannot be guided by a structural tag.
        """
        ...
