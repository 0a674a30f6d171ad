"""Render answers as Anthropic's API writes them: a message, or the events that make one."""

import enum
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from orjson import dumps

from gateway.api.anthropic.errors import error_event
from gateway.api.writers.api_adapter import AnswerHead, Call, Choice, Counts, Frame
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from protos.errors import PenstockError
from protos.types import FinishReason

_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_REASONS: Final = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "refusal",
}
_TEXT_BLOCK: Final = {"type": "text", "text": ""}
_THINKING_BLOCK: Final = {"type": "thinking", "thinking": "", "signature": ""}
_BLOCK_END: Final = b"}}\n\n"


class Thoughts(enum.Enum):
    """How much of the reasoning a client gets: all, only that there was some, or nothing."""

    SHOWN = 1
    OMITTED = 2
    HIDDEN = 3


class MessageRenderer:
    """Writes one message; it has one choice.

    Clients require a signature to send reasoning back; the one made here names its origin, and nothing checks it.
    """

    def __init__(self, head: AnswerHead, thoughts: Thoughts = Thoughts.SHOWN, *, edited: bool = False) -> None:
        """`edited`: the request asks for edits of its prompt; the answer says that there were none."""
        self._head = head
        self._edits: dict[str, Any] = {"context_management": {"applied_edits": []}} if edited else {}
        self._id = f"msg_{head.suffix}"
        self._thoughts = thoughts
        self._blocks = 0
        #: The kind of the open block, and how each of its events begins.
        self._open: type[Delta] | None = None
        self._delta_head = b""
        self._call = -1
        #: White space at the beginning of a text; a block needs more than that.
        self._blank = ""
        self._called = False
        self._finish = FinishReason.STOP

    def opening(self) -> bytes:
        end = {"stop_reason": None, "stop_sequence": None, "stop_details": None}
        message = self._message([], end, Counts(self._head.prompt_tokens, 0))
        return _event("message_start", {"message": message}) + _PING

    def frame(self, index: int, kind: Delta) -> Frame | None:
        del index
        if isinstance(kind, CallArguments):
            opened = self._open is CallStart and kind.call == self._call
        else:
            opened = self._open is type(kind)
        if not opened or (self._open is Reasoning and self._thoughts is not Thoughts.SHOWN):
            return None
        return self._delta_head + b'"', b'"' + _BLOCK_END

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        del index
        events: list[bytes] = []
        for delta in deltas:
            match delta:
                case Text(text):
                    self._text(events, text)
                case Reasoning(text):
                    self._thought(events, text)
                case CallStart(call, call_id, name):
                    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                    self._start(events, CallStart, block, b"input_json_delta", b"partial_json")
                    self._called, self._call = True, call
                case CallArguments(call, text):
                    if self._open is CallStart and call == self._call:
                        events += (self._delta_head, dumps(text), _BLOCK_END)
        if finish is not None:
            self._end_block(events)
            self._finish = finish
        return b"".join(events)

    def closing(self, counts: Counts) -> bytes:
        end = _end(self._finish, counts, called=self._called)
        return _event("message_delta", {"delta": end, "usage": _usage(counts)} | self._edits) + _STOP

    def broken(self, error: PenstockError) -> bytes:
        return error_event(error, f"req_{self._head.suffix}")

    def whole(self, choices: Sequence[Choice], counts: Counts) -> bytes:
        """Encode the message; arguments that are no JSON object, as of an answer cut short, become an empty object."""
        choice = choices[0]
        content: list[dict[str, Any]] = []
        for part in choice.parts:
            if isinstance(part, Call):
                content.append({"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part.arguments)})
            elif isinstance(part, Reasoning):
                if part.text and self._thoughts is not Thoughts.HIDDEN:
                    thought = part.text if self._thoughts is Thoughts.SHOWN else ""
                    signature = self._signature(len(content))
                    content.append({"type": "thinking", "thinking": thought, "signature": signature})
            elif part.text and not part.text.isspace():
                content.append({"type": "text", "text": part.text})
        end = _end(choice.finish, counts, called=bool(choice.calls))
        return msgspec.json.encode(self._message(content, end, counts) | self._edits)

    def _message(self, content: list[dict[str, Any]], end: dict[str, Any], counts: Counts) -> dict[str, Any]:
        message: dict[str, Any] = {"id": self._id, "type": "message", "role": "assistant", "model": self._head.model}
        return message | {"content": content} | end | {"usage": _usage(counts)}

    def _text(self, events: list[bytes], text: str) -> None:
        if self._open is not Text:
            text = self._blank + text
            if not text or text.isspace():
                self._blank = text
                return
            self._start(events, Text, _TEXT_BLOCK, b"text_delta", b"text")
        events += (self._delta_head, dumps(text), _BLOCK_END)

    def _thought(self, events: list[bytes], text: str) -> None:
        if self._thoughts is Thoughts.HIDDEN or not text:
            return
        if self._open is not Reasoning:
            self._start(events, Reasoning, _THINKING_BLOCK, b"thinking_delta", b"thinking")
        if self._thoughts is Thoughts.SHOWN:
            events += (self._delta_head, dumps(text), _BLOCK_END)

    def _start(self, events: list[bytes], kind: type[Delta], block: dict[str, Any], name: bytes, key: bytes) -> None:
        self._end_block(events)
        events.append(_event("content_block_start", {"index": self._blocks, "content_block": block}))
        self._open = kind
        self._delta_head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
        ) % (self._blocks, name, key)

    def _end_block(self, events: list[bytes]) -> None:
        self._blank = ""
        if self._open is None:
            return
        if self._open is Reasoning:
            delta = {"type": "signature_delta", "signature": self._signature(self._blocks)}
            events.append(_event("content_block_delta", {"index": self._blocks, "delta": delta}))
        events.append(_event("content_block_stop", {"index": self._blocks}))
        self._open = None
        self._blocks += 1

    def _signature(self, block: int) -> str:
        return f"{self._id}-{block}"


def _event(name: str, members: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps({"type": name} | members))


def _end(finish: FinishReason, counts: Counts, *, called: bool) -> dict[str, Any]:
    """Give the stop reason."""
    reason, stop, details = _REASONS.get(finish, "end_turn"), None, None
    if finish is FinishReason.CONTENT_FILTER:
        details = {"type": "refusal", "category": None, "explanation": None}
    elif finish is FinishReason.STOP and counts.stopped_by is not None:
        reason, stop = "stop_sequence", counts.stopped_by
    elif finish is FinishReason.STOP and called:
        reason = "tool_use"
    return {"stop_reason": reason, "stop_sequence": stop, "stop_details": details}


def _usage(counts: Counts) -> dict[str, Any]:
    """Make the usage object: `input_tokens` are the prompt's tokens that no cache had or took."""
    usage: dict[str, Any] = {
        "input_tokens": max(0, counts.prompt - counts.cached - counts.written),
        "cache_creation_input_tokens": counts.written,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.completion,
    }
    if counts.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": counts.reasoning}
    return usage


def _input(arguments: str) -> Any:
    if not arguments.strip():
        return {}
    try:
        found = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return msgspec.Raw(arguments.encode()) if isinstance(found, dict) else {}
