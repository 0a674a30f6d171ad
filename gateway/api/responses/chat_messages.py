"""Translate input items, earlier answers among them, to chat messages."""

from typing import Any, Final, Literal

import msgspec

from gateway.api.responses.items import CallItem, MessageItem, OutputItem, ThoughtItem, read_item
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

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._answer: dict[str, Any] | None = None
        self._thoughts = ""

    def instruct(self, instructions: str) -> None:
        """Add the instructions, which come before everything else."""
        self.messages.append({"role": "system", "content": instructions})

    def add(self, item: dict[str, Any], where: str) -> None:
        """Add the next item, which is at `where` in the body. Raises InvalidRequest or UnsupportedParameter."""
        found = read_item(item, where)
        match found:
            case MessageItem(role="assistant"):
                content = contents(found.content, f"{where}.content")
                if self._calling is None:
                    self._begin()["content"] = content
                else:
                    self._calling["content"] = _joined(self._calling["content"], content)
            case CallItem():
                call = {"name": found.name, "arguments": found.arguments}
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
                self.messages.append({"role": found.role, "content": contents(found.content, f"{where}.content")})
            case OutputItem():
                self._turn_ends()
                content = contents(found.output, f"{where}.output")
                self.messages.append({"role": "tool", "tool_call_id": found.call_id, "content": content})
            case _:
                raise AssertionError("references are resolved before")

    @property
    def _calling(self) -> dict[str, Any] | None:
        """Return the open assistant message if it has calls: their results must come next, so later parts join it."""
        return self._answer if self._answer is not None and "tool_calls" in self._answer else None

    def _begin(self) -> dict[str, Any]:
        self._answer = {"role": "assistant", "content": None}
        if self._thoughts:
            self._answer["reasoning_content"] = self._thoughts
            self._thoughts = ""
        self.messages.append(self._answer)
        return self._answer

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


def _joined(one: str | list[dict[str, Any]] | None, other: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if not one or not other:
        return one or other
    if isinstance(one, str) and isinstance(other, str):
        return one + other
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
            detail = {} if image.detail is None else {"detail": image.detail}
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
