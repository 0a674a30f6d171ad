"""Find out which turns a chat template writes, and arrange those of a request so that none is lost.

Some templates drop the text beside a call, or all calls of an answer but the first; some refuse these, or two messages
of a role in a row. Each is asked once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.text.tokens.chat_format import Messages, TemplateError
from gateway.text.tokens.forms.call_form import PROBE_CALL, CallForm
from gateway.text.tokens.forms.thought_name import PART

_BREAK: Final = "\n\n"
_TEXT, _THOUGHT, _OTHER = "Alder", "Elder", "Sloe"
_USER: Final = {"role": "user", "content": "Quince"}
_LATER: Final = ({"role": "assistant", "content": "Rowan"}, {"role": "user", "content": "Medlar"})

Render = Callable[[Sequence[Mapping[str, Any]]], str]


class TurnForm(NamedTuple):
    """`apart`: text beside calls is a message of its own; `late`: it joins the answer that ends the turn; `single`: a
    message has one call, before its result; `merged`: neighbours of a role are one message.
    """

    apart: bool = False
    late: bool = False
    single: bool = False
    merged: bool = False

    def arranged(self, messages: Messages) -> list[Mapping[str, Any]]:
        """Arrange the messages."""
        if self.late:
            messages = _late(messages)
        found: list[Mapping[str, Any]] = []
        #: The results that already stand by their calls.
        placed: frozenset[str] = frozenset()
        for position, message in enumerate(messages):
            if message["role"] == "tool" and message.get("tool_call_id") in placed:
                continue
            if message["role"] != "tool":
                placed = frozenset()
            calls = message.get("tool_calls") or ()
            if calls and self.apart and message.get("content"):
                self._add(found, {"role": message["role"], "content": message["content"]})
                message = {**message, "content": None}  # noqa: PLW2901 -- its text is written
            if self.single and len(calls) > 1:
                results = {one["tool_call_id"]: one for one in _results(messages, position + 1)}
                placed = frozenset(results)
                found += _one_by_one(message, results)
            else:
                self._add(found, message)
        return found

    def _add(self, found: list[Mapping[str, Any]], message: Mapping[str, Any]) -> None:
        last = found[-1] if found and self.merged else None
        if last is None or last["role"] != message["role"] or not _is_text(last) or not _is_text(message):
            found.append(message)
            return
        texts = [one["content"] for one in (last, message) if one["content"]]
        found[-1] = {**last, "content": _BREAK.join(texts)}


def _late(messages: Messages) -> list[Mapping[str, Any]]:
    """Move text beside calls to the answer after them. In a turn that has none yet, it comes before the calls."""
    found: list[Mapping[str, Any]] = []
    texts: list[str] = []
    first = 0
    for message in messages:
        if message.get("tool_calls"):
            first = first if texts else len(found)
            if message.get("content"):
                texts.append(message["content"])
                message = {**message, "content": None}  # noqa: PLW2901 -- its text is written
        elif texts and message["role"] == "assistant":
            message = {**message, "content": _BREAK.join([*texts, message.get("content") or ""])}  # noqa: PLW2901
            texts = []
        elif texts and message["role"] != "tool":
            found.append({"role": "assistant", "content": _BREAK.join(texts)})
            texts = []
        found.append(message)
    if texts:
        found.insert(first, {"role": "assistant", "content": _BREAK.join(texts)})
    return found


def _is_text(message: Mapping[str, Any]) -> bool:
    """Whether a message is text of a user or of the assistant, and nothing else."""
    return message["role"] in ("user", "assistant") and len(message) == 2


def _results(messages: Messages, start: int) -> Iterator[Mapping[str, Any]]:
    for message in messages[start:]:
        if message["role"] != "tool":
            return
        if "tool_call_id" in message:
            yield message


def _one_by_one(message: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Write each call in a message of its own, and its result after it. Text and thoughts come with the first."""
    for place, call in enumerate(message["tool_calls"]):
        rest = message if not place else {"role": message["role"], "content": None}
        yield {**rest, "tool_calls": [call]}
        if call["id"] in results:
            yield results[call["id"]]


def find_turn_form(render: Render, form: CallForm | None, thought_name: str | None) -> TurnForm:
    """Find the form of a template; without a `form` it writes no calls. `render` raises TemplateError."""

    def writes(words: Sequence[str], messages: Sequence[Mapping[str, Any]]) -> bool:
        if form is not None:
            messages = [form.message(message) for message in messages]
        try:
            text = render(messages)
        except TemplateError:
            return False
        return all(word in text for word in words)

    def needs(change: TurnForm, words: Sequence[str], *chats: Sequence[Mapping[str, Any]]) -> bool:
        return not all(writes(words, chat) for chat in chats) and all(
            writes(words, change.arranged(chat)) for chat in chats
        )

    twice = (_USER, {"role": "user", "content": _OTHER})
    merged = needs(TurnForm(merged=True), (_USER["content"], _OTHER), twice)
    if form is None:
        return TurnForm(merged=merged)
    asked, called, result = PROBE_CALL
    text = {**called, "content": _TEXT}
    thoughtful = text if thought_name in (None, PART) else {**text, thought_name: _THOUGHT}
    chats = (asked, text, result, *_LATER), (asked, thoughtful, result), (asked, text, result)
    apart = needs(TurnForm(apart=True), (_TEXT,), *chats)
    late = not apart and needs(TurnForm(late=True), (_TEXT,), *chats)
    (call,) = called["tool_calls"]
    second = {
        **call,
        "id": f"{call['id'][:-1]}8",
        "function": {**call["function"], "arguments": f'{{"sloe": "{_OTHER}"}}'},
    }
    both = {**called, "tool_calls": [call, second]}
    found = {**result, "content": "Hazel", "tool_call_id": second["id"]}
    single = needs(TurnForm(single=True), (_OTHER, "Hazel"), (asked, both, result, found))
    return TurnForm(apart, late, single, merged)
