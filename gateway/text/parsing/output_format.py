"""The form in which one model writes thoughts and tool calls."""

from typing import Protocol

from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import Format


class OutputFormat(Protocol):
    """What the gateway must know of a family of models to read its answers.

    `marks` are control tokens that the parser must see as text, by what stands for them in the vocabulary; those that
    a vocabulary lacks are left out. `calls` says that the family can call tools.
    """

    name: str
    marks: frozenset[str]
    calls: bool

    def parser(self, use: ToolUse | None, prompt_end: str) -> OutputParser | None:
        """One for each answer. None: such an answer is plain text, and needs no parser.

        `use` None: no tools were offered (or none may be called). `prompt_end` is how the prompt ends, control tokens
        of `marks` included: where a template opens a thought there, the answer begins within it.
        """
        ...

    def structural_tag(self, use: ToolUse) -> str | None:
        """What guides the arguments of strict tools that the model may call or not, as a structural tag's JSON.

        None: no tool is strict, or the family's calls cannot be guided so.
        """
        ...

    def calls_or_answer_tag(self, use: ToolUse, answer: Format) -> str | None:
        """What guides an answer to calls of these tools or, instead, to what `answer` asks for, as such JSON.

        A thought may come before either. None: the family's calls cannot be guided so.
        """
        ...
