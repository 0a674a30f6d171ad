"""Render chat completions of parsed answers: reasoning and tool calls beside the text."""

from collections.abc import Sequence
from typing import Any, Final

from orjson import dumps

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.server.openai_errors import error_event
from gateway.api.writers.api_adapter import AnswerHead, Choice, Counts, Frame, finish_name
from gateway.api.writers.chunk_encoder import DONE, usage_fields
from gateway.models.served_model import ServedModel
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import PenstockError
from protos.types import FinishReason

_NO_DELTA: Final = b'"delta":{}'


class ChatRenderer:
    """The `Renderer` of OpenAI's chat API, which has no name for thoughts: engines' servers and clients have two."""

    def __init__(self, api: CompletionApi, model: ServedModel, head: AnswerHead, count: int, *, usage: bool) -> None:
        """`count` is the number of choices; with `usage` a stream ends with the counts."""
        self._api = api
        self._model = model
        self._with_usage = usage
        self._count = count
        self._called = [False] * count
        fields: dict[str, Any] = {
            "id": api.id_prefix + head.suffix,
            "object": api.chunk_object if head.streamed else api.object,
            "created": head.created,
            "model": head.model,
        }
        self._fingerprint = {"system_fingerprint": head.fingerprint} if head.fingerprint else {}
        self._fields = fields
        self._head = b"data: " + dumps(fields | self._fingerprint)[:-1]
        self._tail = (b',"usage":null' if usage else b"") + b"}\n\n"
        self._heads = [b'%b,"choices":[{"index":%d,' % (self._head, index) for index in range(count)]
        self._end = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self._frames: dict[tuple[int, type[Delta], int], Frame] = {}

    def opening(self) -> bytes:
        """Encode the first chunk of every choice, which carries the role."""
        delta = b'"delta":' + dumps(self._api.opening)
        return b"".join([b"%b%b%b" % (head, delta, self._end) for head in self._heads])

    def frame(self, index: int, kind: Delta) -> Frame | None:
        return self._frame(index, kind)

    def _frame(self, index: int, kind: Delta) -> Frame:
        call = kind.call if isinstance(kind, CallArguments) else 0
        key = index, type(kind), call
        frame = self._frames.get(key)
        if frame is None:
            if isinstance(kind, Reasoning):
                first, *more = self._model.thought_names
                parts = [b'"delta":{"%b":"' % first.encode(), *(b'","%b":"' % name.encode() for name in more), b'"}']
            elif isinstance(kind, CallArguments):
                parts = [b'"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"' % call, b'"}}]}']
            else:
                parts = [b'"delta":{"content":"', b'"}']
            frame = self._frames[key] = self._heads[index] + parts[0], *parts[1:-1], parts[-1] + self._end
        return frame

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        """Encode a chunk for each delta."""
        if len(deltas) == 1 and finish is None:
            return self._delta(index, deltas[0])
        parts = [self._delta(index, delta) for delta in deltas]
        if finish is not None:
            name = finish_name(finish, called=self._called[index]).encode()
            parts.append(
                b'%b%b,"logprobs":null,"finish_reason":"%b"}]%b' % (self._heads[index], _NO_DELTA, name, self._tail)
            )
        return b"".join(parts)

    def _delta(self, index: int, delta: Delta) -> bytes:
        if isinstance(delta, CallStart):
            return self._start(index, delta)
        frame = self._frame(index, delta)
        text = dumps(delta.text)[1:-1]
        if not isinstance(delta, Text) or not delta.entries:
            return text.join(frame)
        logprobs = dumps(self.logprobs(list(delta.entries)))
        return b'%b%b"},"logprobs":%b,"finish_reason":null}]%b' % (frame[0], text, logprobs, self._tail)

    def _start(self, index: int, delta: CallStart) -> bytes:
        self._called[index] = True
        opened = {"id": delta.id, "type": "function", "function": {"name": delta.name, "arguments": ""}}
        call = dumps({"index": delta.call} | opened)
        return b'%b"delta":{"tool_calls":[%b]}%b' % (self._heads[index], call, self._end)

    def closing(self, counts: Counts) -> bytes:
        """Encode the usage chunk, if it was asked for, and the end mark."""
        if not self._with_usage:
            return DONE
        return b'%b,"choices":[],"usage":%b}\n\n%b' % (self._head, dumps(usage_fields(counts)), DONE)

    def broken(self, error: PenstockError) -> bytes:
        """Encode an error event; no end mark follows, since that would look like success."""
        return error_event(error)

    def whole(self, choices: Sequence[Choice], counts: Counts) -> bytes:
        """Encode the body of an answer in one piece."""
        return dumps(self.answer(choices, counts))

    def answer(self, choices: Sequence[Choice], counts: Counts) -> dict[str, Any]:
        """Make the body of an answer in one piece."""
        shown = [self.choice(index, choice) for index, choice in enumerate(choices)]
        return {**self._fields, "choices": shown, "usage": usage_fields(counts), **self._fingerprint}

    def choice(self, index: int, choice: Choice) -> dict[str, Any]:
        """Make one choice of an answer in one piece."""
        text, thoughts, calls, entries = choice.text, choice.reasoning, choice.calls, choice.entries
        message: dict[str, Any] = {
            "role": "assistant",
            # OpenAI's API has null where there are calls alone.
            "content": text if text or not calls else None,
            "refusal": None,
        }
        if thoughts:
            message |= dict.fromkeys(self._model.thought_names, thoughts)
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        logprobs = self.logprobs(entries) if entries else None
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": choice.finish_name}

    def logprobs(self, entries: list[TokenEntry]) -> dict[str, Any] | None:
        """Make a choice's logprobs."""
        return self._api.logprobs(entries, self._model, 0)
