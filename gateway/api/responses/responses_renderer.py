"""Render a response as the API's typed events, or in one piece."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec import to_builtins
from orjson import dumps

from gateway.api.responses.errors import to_responses_error
from gateway.api.responses.response_answer import IN_PROGRESS, QUEUED, Outcome
from gateway.api.responses.responses_tools import NamedTool
from gateway.api.writers.api_adapter import Call, Choice, Counts, Frame
from gateway.text.parsing.delta import CallStart, Delta, Reasoning, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import PenstockError
from protos.types import FinishReason

#: Converts logprobs to the API's form.
Logprobs = Callable[[Sequence[TokenEntry]], list[dict[str, Any]]]

_TEXT: Final = "response.output_text"
_THOUGHT: Final = "response.reasoning_text"
_ARGUMENTS: Final = "response.function_call_arguments"


class Form(Protocol):
    """Encodes a renderer's object in its present state; `suffix` ends the ids of its parts."""

    suffix: str

    def write(self, outcome: Outcome, output: Sequence[dict[str, Any]] = (), counts: Counts | None = None) -> bytes:
        """Encode the object in its present state."""
        ...


class ResponseRenderer:
    """The `Renderer` of one response; afterwards `final`, `outcome` and `output` are ready to be stored."""

    def __init__(
        self,
        form: Form,
        logprobs: Logprobs,
        namespaced: Mapping[str, NamedTool] = MappingProxyType({}),
        *,
        queued: bool = False,
    ) -> None:
        """`namespaced`: functions of namespaces by their names in calls. `queued`: the stream begins with the event of
        a response that has waited.
        """
        self._form = form
        self._namespaced = namespaced
        self._logprobs = logprobs
        self._queued = queued
        self._sequence = 0
        #: The open item: its form, its text so far, and the bytes before and after each of its text events.
        self._item: dict[str, Any] | None = None
        self._pieces: list[str] = []
        self._entries: list[dict[str, Any]] = []
        self._head = self._middle = self._tail = b""
        self.output: list[dict[str, Any]] = []
        self.outcome = IN_PROGRESS
        self.final = b""

    def opening(self) -> bytes:
        """Encode the events that the response exists and is in progress."""
        if self._queued:
            waiting = self._form.write(QUEUED)
            begun = self._lifecycle("response.created", waiting) + self._lifecycle("response.queued", waiting)
            return begun + self._lifecycle("response.in_progress", self._form.write(IN_PROGRESS))
        response = self._form.write(IN_PROGRESS)
        return self._lifecycle("response.created", response) + self._lifecycle("response.in_progress", response)

    def frame(self, index: int, kind: Delta) -> Frame | None:
        """Give no frame, since every event has its own number."""
        del index, kind
        return None

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        """Encode the events of the deltas; a response has one choice."""
        del index
        if len(deltas) == 1 and finish is None:
            return self._delta(deltas[0])
        parts = [self._delta(delta) for delta in deltas]
        if finish is not None:
            if self._item is None and not self.output:
                parts.append(self._start_message())
            self.outcome = Outcome.of(finish)
            parts.append(self._close(self.outcome.status))
        return b"".join(parts)

    def _delta(self, delta: Delta) -> bytes:
        kind, item = type(delta), self._item
        if kind is CallStart:
            return self._start_call(delta)  # type: ignore[arg-type]
        text: str = delta.text  # type: ignore[union-attr]
        before = b""
        if kind is Text:
            if item is None or item["type"] != "message":
                before = self._start_message()
            if delta.entries or delta.told:  # type: ignore[union-attr]
                return before + self._with_logprobs(delta)  # type: ignore[arg-type]
        elif kind is Reasoning and (item is None or item["type"] != "reasoning"):
            before = self._start_thought()
        self._pieces.append(text)
        number = self._sequence
        self._sequence = number + 1
        return b"%b%b%d%b%b%b" % (before, self._head, number, self._middle, dumps(text), self._tail)

    def _with_logprobs(self, delta: Text) -> bytes:
        text, entries, told = delta
        shown: list[dict[str, Any]] = self._logprobs(entries) if entries else to_builtins(told)
        self._entries += shown
        self._pieces.append(text)
        number = self._sequence
        self._sequence = number + 1
        head = b"%b%d%b%b" % (self._head, number, self._middle, dumps(text))
        return b'%b,"logprobs":%b}\n\n' % (head, dumps(shown))

    def closing(self, counts: Counts) -> bytes:
        """Encode the end of a response, complete or not."""
        self.final = self._form.write(self.outcome, self.output, counts)
        return self._lifecycle(f"response.{self.outcome.status}", self.final)

    def broken(self, error: PenstockError) -> bytes:
        """Encode the end of a failed response, with its output so far."""
        if self.final:
            # The end that was encoded is not sent.
            self._sequence -= 1
        shown = self._close("incomplete")
        self.outcome = Outcome("failed", error=to_responses_error(error))
        self.final = self._form.write(self.outcome, self.output)
        return shown + self._lifecycle("response.failed", self.final)

    def whole(self, choices: Sequence[Choice], counts: Counts) -> bytes:
        """Encode a response that is not streamed."""
        choice = choices[0]
        for part in choice.parts or (Text(""),):
            if isinstance(part, Call):
                # The call's number is not shown.
                self._start_call(CallStart(0, part.id, part.name))
                self._pieces.append(part.arguments)
            else:
                self._delta(part)
        self.outcome = Outcome.of(choice.finish)
        self._close(self.outcome.status)
        self.final = self._form.write(self.outcome, self.output, counts)
        return self.final

    def _start_message(self) -> bytes:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        shown = self._start("msg_", {"type": "message", "role": "assistant", "content": []}, _TEXT, b',"logprobs":[]')
        return shown + self._part("added", part)

    def _start_thought(self) -> bytes:
        shown = self._start("rs_", {"type": "reasoning", "summary": [], "content": []}, _THOUGHT, b"")
        return shown + self._part("added", {"type": "reasoning_text", "text": ""})

    def _start_call(self, call: CallStart) -> bytes:
        item: dict[str, Any] = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": ""}
        if tool := self._namespaced.get(call.name):
            item |= {"name": tool.name, "namespace": tool.namespace}
        return self._start("fc_", item, _ARGUMENTS, b"")

    def _start(self, prefix: str, fields: dict[str, Any], name: str, tail: bytes) -> bytes:
        """Begin an item; return the end of the one before and the new one's beginning."""
        before = b"" if self._item is None else self._close("completed")
        index = len(self.output)
        item = {"id": f"{prefix}{self._form.suffix}_{index}", "status": "in_progress", **fields}
        self._item = item
        self._head = b'event: %b.delta\ndata: {"type":"%b.delta","sequence_number":' % (name.encode(), name.encode())
        place = b'"item_id":%b,"output_index":%d' % (dumps(item["id"]), index)
        content = b"" if name is _ARGUMENTS else b',"content_index":0'
        self._middle = b",%b%b," % (place, content) + b'"delta":'
        self._tail = tail + b"}\n\n"
        return before + self._event("response.output_item.added", {"output_index": index, "item": item})

    def _close(self, status: str) -> bytes:
        """End the open item and its part."""
        item, index = self._item, len(self.output)
        if item is None:
            return b""
        text, entries = "".join(self._pieces), self._entries
        self._item, self._pieces, self._entries = None, [], []
        place = {"item_id": item["id"], "output_index": index}
        done = dict(item)
        done["status"] = "completed" if status == "completed" else "incomplete"
        if item["type"] == "function_call":
            done["arguments"] = text
            shown = self._event(f"{_ARGUMENTS}.done", {**place, "name": item["name"], "arguments": text})
        else:
            place["content_index"] = 0
            if item["type"] == "message":
                part = {"type": "output_text", "annotations": [], "logprobs": entries, "text": text}
                shown = self._event(f"{_TEXT}.done", {**place, "text": text, "logprobs": entries})
            else:
                part = {"type": "reasoning_text", "text": text}
                shown = self._event(f"{_THOUGHT}.done", {**place, "text": text})
            done["content"] = [part]
            shown += self._event("response.content_part.done", {**place, "part": part})
        self.output.append(done)
        return shown + self._event("response.output_item.done", {"output_index": index, "item": done})

    def _part(self, what: str, part: dict[str, Any]) -> bytes:
        assert self._item is not None
        place = {"item_id": self._item["id"], "output_index": len(self.output), "content_index": 0}
        return self._event(f"response.content_part.{what}", {**place, "part": part})

    def _event(self, name: str, fields: dict[str, Any]) -> bytes:
        return self._numbered(name, b"," + dumps(fields)[1:])

    def _lifecycle(self, name: str, response: bytes) -> bytes:
        return self._numbered(name, b',"response":' + response + b"}")

    def _numbered(self, name: str, rest: bytes) -> bytes:
        written, number = name.encode(), self._sequence
        self._sequence = number + 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d%b\n\n' % (written, written, number, rest)
