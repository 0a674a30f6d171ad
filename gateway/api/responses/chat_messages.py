"""Translate input items, earlier answers among them, to chat messages."""

from typing import Any, Final, Literal

import msgspec

from gateway.api.responses.compaction_item import summary_of
from gateway.api.responses.items import CallItem, CompactionItem, MessageItem, OutputItem, ThoughtItem, read_item
from gateway.api.responses.responses_tools import ChatTools
from gateway.api.server.body_decoder import MAX_ECHO, read_part
from protos.errors import InvalidRequest, UnsupportedParameter


class _Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str
    #: A cache breakpoint; caches here need none.
    prompt_cache_breakpoint: Any = None


class _TextPart(_Part, frozen=True, kw_only=True):
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class _RefusalPart(_Part, frozen=True, kw_only=True):
    refusal: str


class _ImagePart(_Part, frozen=True, kw_only=True):
    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None


class _FilePart(_Part, frozen=True, kw_only=True):
    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


class _AudioPart(_Part, frozen=True, kw_only=True):
    input_audio: dict[str, Any]


_PARTS: Final[dict[str, type[_Part]]] = {
    "input_text": _TextPart,
    "output_text": _TextPart,
    "text": _TextPart,
    "refusal": _RefusalPart,
    "input_image": _ImagePart,
    "input_file": _FilePart,
    "input_audio": _AudioPart,
}


class Messages:
    """Makes messages of items in order: an answer's reasoning, text and calls are one message of the assistant."""

    def __init__(self, tools: ChatTools) -> None:
        """`tools` say by which names the chat has functions of namespaces."""
        self.messages: list[dict[str, Any]] = []
        #: The places in the body that they come from.
        self.origins: list[str] = []
        self._where = ""
        self._tools = tools
        self._answer: dict[str, Any] | None = None
        self._thoughts = ""
        #: Whether the last message ends with a summary, and what the user has said since.
        self._summarised = False

    def instruct(self, instructions: str) -> None:
        """Add the instructions, which come before everything else."""
        self._append({"role": "system", "content": instructions}, "instructions")

    def add(self, item: dict[str, Any], where: str) -> None:
        """Add the next item, which is at `where` in the body. Raises InvalidRequest or UnsupportedParameter."""
        found = read_item(item, where)
        self._where = where
        match found:
            case MessageItem(role="assistant"):
                content = contents(found.content, f"{where}.content")
                if self._calling is None:
                    self._begin()["content"] = content
                else:
                    self._calling["content"] = _joined(self._calling["content"], content)
            case CallItem():
                name = self._tools.chat_name(found.namespace, found.name)
                call = {"name": name, "arguments": found.arguments}
                answer = self._begin() if self._answer is None else self._answer
                calls = answer.setdefault("tool_calls", [])
                calls.append({"id": found.call_id, "type": "function", "function": call})
            case ThoughtItem():
                if self._calling is None:
                    self._end()
                    self._thoughts += found.text
                elif found.text:
                    self._calling["reasoning_content"] = self._calling.get("reasoning_content", "") + found.text
            case MessageItem():
                self._turn_ends()
                content = contents(found.content, f"{where}.content")
                if found.role == "user" and self._summarised:
                    self._join_user(content)
                else:
                    self._append({"role": found.role, "content": content}, where)
            case CompactionItem():
                self._turn_ends()
                self._summarise(summary_of(found.encrypted_content, where))
            case OutputItem():
                self._turn_ends()
                content = contents(found.output, f"{where}.output")
                self._append({"role": "tool", "tool_call_id": found.call_id, "content": content}, where)
            case _:
                raise AssertionError("references are resolved before")

    def _summarise(self, summary: str) -> None:
        """Add a summary. It and the user's messages about it become one, for many templates refuse two in a row."""
        last = len(self.messages)
        while last and self.messages[last - 1]["role"] == "user":
            last -= 1
        earlier = [message["content"] for message in self.messages[last:]]
        if not earlier:
            self._append({"role": "user", "content": summary}, self._where)
        else:
            del self.messages[last + 1 :], self.origins[last + 1 :]
            self.messages[last]["content"] = earlier[0]
            for content in (*earlier[1:], summary):
                self._join_user(content)
        self._summarised = True

    def _join_user(self, content: str | list[dict[str, Any]]) -> None:
        message = self.messages[-1]
        message["content"] = _joined(message["content"], content, "\n\n")

    @property
    def _calling(self) -> dict[str, Any] | None:
        """Return the open assistant message if it has calls: their results must come next, so later parts join it."""
        return self._answer if self._answer is not None and "tool_calls" in self._answer else None

    def _begin(self) -> dict[str, Any]:
        self._answer = {"role": "assistant", "content": None}
        if self._thoughts:
            self._answer["reasoning_content"] = self._thoughts
            self._thoughts = ""
        self._append(self._answer, self._where)
        return self._answer

    def _append(self, message: dict[str, Any], where: str) -> None:
        self._summarised = False
        self.messages.append(message)
        self.origins.append(where)

    def _end(self) -> None:
        self._answer = None

    def _turn_ends(self) -> None:
        # Reasoning without an answer, as of one cut short, does not belong to the next answer.
        self._end()
        self._thoughts = ""


def contents(given: str | list[dict[str, Any]], where: str) -> str | list[dict[str, Any]]:
    """Translate a message's content. Raises InvalidRequest or UnsupportedParameter."""
    if isinstance(given, str):
        return given
    parts = [_chat_part(part, f"{where}[{position}]") for position, part in enumerate(given)]
    # A single text becomes a string, which all filters and templates take.
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or ""


def _joined(
    one: str | list[dict[str, Any]] | None, other: str | list[dict[str, Any]], between: str = ""
) -> str | list[dict[str, Any]]:
    if not one or not other:
        return one or other
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}{between}{other}"
    return [*_parts(one), *_parts(other)]


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _chat_part(given: dict[str, Any], where: str) -> dict[str, Any]:
    name = given.get("type")
    kind = _PARTS.get(name) if isinstance(name, str) else None
    if kind is None:
        if name is None:
            raise InvalidRequest(f"Missing required parameter: '{where}.type'.", param=f"{where}.type")
        shown = str(name)[:MAX_ECHO]
        raise UnsupportedParameter(
            f"Unsupported value: '{where}.type' may not be '{shown}' here.", param=f"{where}.type"
        )
    match read_part(given, kind, where):
        case _TextPart(text=text):
            return {"type": "text", "text": text}
        case _RefusalPart(refusal=refusal):
            # A refusal is text of the answer.
            return {"type": "text", "text": refusal}
        case _ImagePart() as image:
            _refuse(where, file_id=image.file_id)
            if image.image_url is None:
                raise InvalidRequest(f"Missing required parameter: '{where}.image_url'.", param=f"{where}.image_url")
            # Chats know no more than high.
            level = "high" if image.detail == "original" else image.detail
            detail = {} if level is None else {"detail": level}
            return {"type": "image_url", "image_url": {"url": image.image_url, **detail}}
        case _FilePart() as file:
            _refuse(where, file_id=file.file_id, file_url=file.file_url)
            if file.file_data is None:
                raise InvalidRequest(f"Missing required parameter: '{where}.file_data'.", param=f"{where}.file_data")
            named = {} if file.filename is None else {"filename": file.filename}
            return {"type": "file", "file": {"file_data": file.file_data, **named}}
        case _AudioPart(input_audio=audio):
            return {"type": "input_audio", "input_audio": audio}
    raise AssertionError(name)


def _refuse(where: str, **values: str | None) -> None:
    for name, value in values.items():
        if value is not None:
            param = f"{where}.{name}"
            raise UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
