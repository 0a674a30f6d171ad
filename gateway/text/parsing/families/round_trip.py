"""Find out whether a family's parser reads the call that a chat template writes."""

import json
import re
from collections.abc import Callable
from typing import Final

from gateway.text.parsing.delta import CallArguments, CallStart
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.tokens.forms.call_form import PROBE_CALL, PROBE_TOOLS

_FUNCTION: Final = PROBE_TOOLS[0]["function"]
_USE: Final = ToolUse((Tool(_FUNCTION["name"], _FUNCTION["description"], _FUNCTION["parameters"]),))
#: The sample call, by name and arguments.
SAMPLE_NAME: Final[str] = _FUNCTION["name"]
SAMPLE_ARGUMENTS: Final = json.loads(PROBE_CALL[1]["tool_calls"][0]["function"]["arguments"])

#: A tag that a call follows. Tags of thoughts end before the answer, and marks of turns (`<|im_end|>`) are no part of
#: it.
_TAG: Final = re.compile(r"<(?![|])(?!/?[a-z:]*think)[^<>\s]+>\s*\Z")


def reads(new_parser: Callable[[ToolUse], OutputParser], written: str) -> bool:
    """Whether a parser finds the sample call, and no other, in what a template has written for it.

    A tag that is left before the call is another family's.
    """
    parser = new_parser(_USE)
    names: list[str] = []
    arguments: list[str] = []
    before = ""
    for delta in (*parser.feed(written), *parser.finish()):
        if isinstance(delta, CallStart):
            names.append(delta.name)
        elif isinstance(delta, CallArguments):
            arguments.append(delta.text)
        elif not names:
            before += delta.text
    if names != [SAMPLE_NAME] or _TAG.search(before):
        return False
    try:
        return bool(json.loads("".join(arguments)) == SAMPLE_ARGUMENTS)
    except ValueError:
        return False
