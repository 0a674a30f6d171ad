"""Offer a request's tools to a model, where the gateway itself renders them and parses the calls."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

from gateway.inference.generate_request import NewParser
from gateway.models.served_model import ServedModel
from gateway.text.parsing.forced import forced_parser, forced_schema
from gateway.text.parsing.offered_tools import Tool, ToolChoice, ToolUse
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import answer_format
from protos.errors import UnsupportedParameter
from protos.types import Guide, GuideKind


@dataclass(frozen=True, slots=True)
class CallsParser:
    """Makes parsers of answers that may call tools."""

    output: OutputFormat
    use: ToolUse

    def __call__(self, prompt_end: str | None, *, whole: bool = False) -> OutputParser | None:
        """Make the parser of one answer (see `NewParser`)."""
        return self.output.parser(self.use, prompt_end, whole=whole)

    def guide_beside(self, guide: Guide, param: str) -> Guide:
        """Extend `guide`, which is from the parameter `param`, so that an answer may call tools instead of following
        it.

        Raises UnsupportedParameter where that is impossible.
        """
        answer = answer_format(guide)
        tag = None if answer is None else self.output.calls_or_answer_tag(self.use, answer)
        if tag is not None:
            return Guide(GuideKind.STRUCTURAL_TAG, tag)
        why = "" if answer is None else ": this model's calls cannot be guided, or told from such answers"
        raise UnsupportedParameter(
            f"'{param}' cannot be honoured together with 'tools' that may be called{why}.", param=param
        )


class Offer(NamedTuple):
    """`shown` are tools for the chat format, in OpenAI's form; `guide` is from the parameter `guide_param`."""

    shown: list[dict[str, Any]]
    parser: NewParser | None
    guide: Guide | None = None
    guide_param: str = ""


def _plain_parser(output: OutputFormat | None) -> NewParser | None:
    if output is None or output.parser(None, "") is None:
        return None
    return partial(output.parser, None)


#: For answers that cannot call tools but may have reasoning; None where the family has no reasoning. Cached, as every
#: plain chat comes here.
plain_parser = cast("Callable[[OutputFormat | None], NewParser | None]", lru_cache(maxsize=1024)(_plain_parser))


def offer(model: ServedModel, use: ToolUse) -> Offer:
    """Make the offer. Raises UnsupportedParameter where the model is not known to call tools.

    Tools that may not be called are not shown, so that no model calls them.
    """
    output = model.output
    if use.choice is ToolChoice.NONE:
        return Offer([], plain_parser(output))
    if output is None or not output.calls or "tools" not in model.chat_format.reads:
        raise UnsupportedParameter("Unsupported parameter: 'tools' is not supported by this model.", param="tools")
    shown = [_shown(tool) for tool in use.tools]
    if use.choice is not ToolChoice.AUTO:
        guide = Guide(GuideKind.JSON_SCHEMA, json.dumps(forced_schema(use), ensure_ascii=False))
        return Offer(shown, partial(_forced, use), guide, "tool_choice")
    parser = CallsParser(output, use)
    if not any(tool.strict for tool in use.tools):
        return Offer(shown, parser)
    tag = output.structural_tag(use)
    if tag is None:
        name = next(tool.name for tool in use.tools if tool.strict)
        raise UnsupportedParameter(
            f"Unsupported value: the tool '{name}' in 'tools' may not be strict here, unless 'tool_choice' asks for a "
            "call.",
            param="tools",
        )
    return Offer(shown, parser, Guide(GuideKind.STRUCTURAL_TAG, tag), "tools")


def _forced(use: ToolUse, prompt_end: str | None, *, whole: bool = False) -> OutputParser:
    del prompt_end, whole  # the guide holds from the first token, so there are no thoughts
    return forced_parser(use)


def _shown(tool: Tool) -> dict[str, Any]:
    """Make a tool with all members that templates read, in the order that models know from training."""
    parameters = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    function = {"name": tool.name, "description": tool.description or "", "parameters": parameters}
    return {"type": "function", "function": function}
