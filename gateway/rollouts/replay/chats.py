"""Make a corpus of a file of chats: JSON lines, each a chat's body, its messages alone, or a line of a batch's input.

A last message of the assistant is the answer that the chat had.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.rollouts.comparison.answer import Answer, ToolCall
from gateway.rollouts.replay.corpus import BadLines, Entry, Path_, decoded, lines_of

_ANY: Final = msgspec.json.Decoder(Any)
_PATHS: Final[tuple[Path_, ...]] = ("/v1/chat/completions", "/v1/completions")


class BadChat(ValueError):
    """A line is no chat; the text says why."""


def chats_in(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file of chats; the id is that of the line, else its number. Raises BadLines."""
    for number, line in lines_of(path):
        value = decoded(_ANY, line, path, number)
        try:
            yield _entry(value, f"line-{number}")
        except BadChat as error:
            raise BadLines(path, number, str(error)) from error


def _entry(value: Any, name: str) -> Entry:
    if isinstance(value, list):
        value = {"messages": value}
    if not isinstance(value, dict):
        raise BadChat("expected an object or a list of messages")
    given = value.get("custom_id", value.get("id", name))
    path: Path_ = _PATHS[0]
    if isinstance(value.get("body"), dict):
        url = value.get("url", path)
        if url not in _PATHS:
            raise BadChat(f"url: expected one of {', '.join(_PATHS)}")
        path, value = url, value["body"]
    if not isinstance(given, str) or not 1 <= len(given) <= 512:
        raise BadChat("id: expected 1 to 512 characters")
    body = {key: part for key, part in value.items() if key not in ("id", "custom_id")}
    if path == "/v1/completions" or ("messages" not in body and "prompt" in body):
        if "prompt" not in body:
            raise BadChat("prompt: it is missing")
        return Entry(id=given, path="/v1/completions", body=body)
    messages, answer = _split(body.get("messages"))
    return Entry(id=given, path=path, body=body | {"messages": messages}, answer=answer)


def _split(messages: Any) -> tuple[list[Any], Answer | None]:
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise BadChat("messages: expected a list of messages, and one at least")
    last = messages[-1]
    if last.get("role") != "assistant":
        return messages, None
    if len(messages) == 1:
        raise BadChat("messages: there is an answer and no question")
    content = last.get("content")
    if content is not None and not isinstance(content, str):
        raise BadChat(f"messages[{len(messages) - 1}].content: expected a text")
    try:
        calls = tuple(
            ToolCall(str(call["function"]["name"]), str(call["function"]["arguments"]))
            for call in last.get("tool_calls") or ()
        )
    except (KeyError, TypeError) as error:
        raise BadChat(f"messages[{len(messages) - 1}].tool_calls: expected calls of functions") from error
    return messages[:-1], Answer(text=content or "", calls=calls, finish="tool_calls" if calls else "stop")
