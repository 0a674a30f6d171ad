"""Find out by which name a chat template reads the thought of an earlier answer."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.text.tokens.chat_format import TemplateError

#: Names of a message's member, the most common first.
_NAMES: Final = ("reasoning_content", "reasoning", "thinking", "thought")
#: In place of a name: the thought is a part of the content, in a list (Ministral).
PART: Final = "content"
_THOUGHT: Final = "Elder"
_SHOWN: Final = re.compile(rf"['\"]:\s*['\"]{_THOUGHT}")
_CHAT: Final[tuple[Mapping[str, Any], ...]] = (
    {"role": "user", "content": "Quince"},
    {"role": "assistant", "content": "Rowan"},
)


def find_thought_name(
    render: Callable[[Sequence[Mapping[str, Any]]], str], called: Sequence[Mapping[str, Any]]
) -> str | None:
    """The name by which `render` writes a thought, in a chat without calls or in `called`, or `PART`; None: it writes
    none.

    `render` raises TemplateError.
    """
    for name in _NAMES:
        if any(_THOUGHT in _written(render, chat, name) for chat in (_CHAT, called)):
            return name
    text = _written(render, _CHAT, PART)
    # Some write whatever the content is, as Python or JSON does.
    return PART if _THOUGHT in text and _SHOWN.search(text) is None else None


def _written(render: Callable[[Sequence[Mapping[str, Any]]], str], chat: Sequence[Mapping[str, Any]], name: str) -> str:
    try:
        return render([with_thought(one, name, _THOUGHT) if one["role"] == "assistant" else one for one in chat])
    except TemplateError:
        return ""


def with_thought(message: Mapping[str, Any], name: str, thought: str) -> Mapping[str, Any]:
    """Give a message its thought by this name."""
    if name != PART:
        return {**message, name: thought}
    text = message.get("content")
    said = [{"type": "text", "text": text}] if text else []
    return {**message, "content": [{"type": "thinking", "thinking": thought}, *said]}
