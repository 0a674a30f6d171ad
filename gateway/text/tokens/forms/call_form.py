"""Detection of the form in which a chat template accepts tool calls.

APIs have a call's arguments as JSON text, and null as the content of a message with calls only. Some templates want
the arguments as an object, some test for null and others join it to a text, and some refuse ids that are not of nine
characters. The form is found once, by rendering sample calls.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, NoReturn

from gateway.text.tokens.chat_format import TemplateError

#: Characters of an id's end that are kept for templates that require short ids.
SHORT_ID_CHARS: Final = 9

_NAME, _KEY, _FLAG, _VALUE = "probe_call", "probe_key", "probe_flag", "probe value"
_ARGUMENTS: Final = json.dumps({_KEY: _VALUE, _FLAG: True})
_PYTHON: Final = re.compile(rf"{_FLAG}\W+True")
_SHORT: Final = re.compile(rf"[A-Za-z0-9]{{{SHORT_ID_CHARS}}}")
_ID: Final = "call_0123456789abcdef01234567"

#: The tool offered in samples.
PROBE_TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "function",
        "function": {
            "name": _NAME,
            "description": "Eleven",
            "parameters": {"type": "object", "properties": {_KEY: {"type": "string", "description": "Twelve"}}},
        },
    },
)
#: A sample call and its result, in OpenAI's form.
PROBE_CALL: Final[tuple[dict[str, Any], ...]] = (
    {"role": "user", "content": "Thirteen"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": _ID, "type": "function", "function": {"name": _NAME, "arguments": _ARGUMENTS}}],
    },
    {"role": "tool", "content": "Fourteen", "tool_call_id": _ID, "name": _NAME},
)


class CallForm(NamedTuple):
    """`null`: absent content is null, not empty text; `parsed`: arguments are objects; `short`: ids are shortened."""

    null: bool
    parsed: bool
    short: bool

    def message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a message with calls or with a call's result to this form; other messages are unchanged."""
        calls = message.get("tool_calls")
        if calls:
            content = message.get("content") or (None if self.null else "")
            return {**message, "content": content, "tool_calls": [self._call(call) for call in calls]}
        if self.short and "tool_call_id" in message:
            return {**message, "tool_call_id": _short(message["tool_call_id"])}
        return message

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        if self.parsed:
            arguments = parsed_json(function["arguments"] or "{}", otherwise=None)
            if isinstance(arguments, dict):
                function = {**function, "arguments": arguments}
        return {**call, "function": function, "id": _short(call["id"]) if self.short else call["id"]}


def _short(call_id: str) -> str:
    """Shorten an id; one whose end has other characters than letters and digits, or too few, gets another."""
    end = call_id[-SHORT_ID_CHARS:]
    if _SHORT.fullmatch(end):
        return end
    return hashlib.blake2b(call_id.encode()).hexdigest()[:SHORT_ID_CHARS]


#: Forms that are close to the API's come last: most templates want objects, and accept an empty text.
_FORMS: Final = tuple(
    CallForm(null, parsed, short) for short, null, parsed in product((False, True), (False, True), (True, False))
)


def find_call_form(render: Callable[[Sequence[Mapping[str, Any]]], str]) -> CallForm | None:
    """The form in which `render` writes a call completely, or None. `render` raises TemplateError."""
    try:
        nones = render(PROBE_CALL[:1]).count("None")
    except TemplateError:
        nones = 0
    pythonic: CallForm | None = None
    for form in _FORMS:
        try:
            text = render([form.message(message) for message in PROBE_CALL])
        except TemplateError:
            continue
        if not all(word in text for word in (_NAME, _KEY, _FLAG, _VALUE)) or text.count("None") > nones:
            continue
        if not form.parsed and _ARGUMENTS not in text:
            continue  # the JSON text was encoded as JSON again
        if form.parsed and _PYTHON.search(text):
            # The call as Python source, or an object written by mistake: then the template wants text.
            pythonic = pythonic or form
            continue
        return form
    return pythonic


def parsed_json(text: str, *, otherwise: Any) -> Any:
    """Parse a JSON text; `otherwise` if it is invalid."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return otherwise


def _not_json(name: str) -> NoReturn:
    raise ValueError(name)
