"""The format of models that write tool calls in their family's form, after optional reasoning in tags."""

from typing import Final

from gateway.text.parsing.families.around import AroundParser
from gateway.text.parsing.families.think import ThinkParser, ThinkTags
from gateway.text.parsing.offered_tools import ToolUse, offered
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import ANY_TEXT, Format, calls_or_answer_tag, may_be_call, strict_tag, tag_of
from gateway.text.parsing.tool_format import ToolFormat

#: Separates reasoning from what follows.
_NEWLINES: Final[Format] = {"type": "regex", "pattern": r"\n{0,2}"}


class TaggedFormat:
    """A family's tool calls after optional reasoning; `tags` are its opening and closing tag, and `around` those that
    the answer's text is between.
    """

    __slots__ = ("_around", "_tags", "_tools", "calls", "marks", "name", "written")

    def __init__(
        self,
        name: str,
        tools: ToolFormat | None,
        tags: tuple[str, str] | None,
        around: tuple[str, str] | None = None,
    ) -> None:
        self.name = name
        self.calls = tools is not None
        self.marks = frozenset[str]() if tools is None else tools.marks
        self._tools = tools
        #: Writes calls as the family's models do; None: it cannot.
        self.written = tools.written if tools is not None and tools.writes else None
        self._around = around
        if around is not None:
            self.marks |= frozenset(around)
        self._tags: ThinkTags | None = None
        if tags is not None:
            self._tags = ThinkTags(*tags, () if tools is None else tools.ends_thought)
            self.marks |= frozenset(tags)

    def parser(self, use: ToolUse | None, prompt_end: str | None, *, whole: bool = False) -> OutputParser | None:
        use = offered(use)

        def new_inner() -> OutputParser | None:
            calls = None if self._tools is None or use is None else self._tools.new_parser(use)
            return calls if self._around is None else AroundParser(self._around, calls)

        return new_inner() if self._tags is None else ThinkParser(self._tags, new_inner, prompt_end, whole=whole)

    def structural_tag(self, use: ToolUse) -> str | None:
        tools = self._tools
        return strict_tag(use, tools.triggers, tools.forms) if tools is not None and tools.forms else None

    def calls_or_answer_tag(self, use: ToolUse, answer: Format) -> str | None:
        tools, tags = self._tools, self._tags
        if tools is None or not tools.forms or (tools.bare and may_be_call(answer)):
            return None
        thought = [] if tags is None else [tag_of(tags.open, ANY_TEXT, tags.close), _NEWLINES]
        return calls_or_answer_tag(use, tools.forms, [tag_of("", answer, "")], thought)
