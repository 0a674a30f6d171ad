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
from protos.errors import PenstockError
from protos.types import FinishReason

_NO_DELTA: Final = b'"delta":{}'


class ChatRenderer:
    """The `Renderer` of OpenAI's chat API; `reasoning_content` is the name that engines' servers share."""

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

    def frame(self, index: int, kind: Delta) -> Frame:
        call = kind.call if isinstance(kind, CallArguments) else 0
        key = index, type(kind), call
        frame = self._frames.get(key)
        if frame is None:
            before, after = b'"delta":{"content":"', b'"}'
            if isinstance(kind, Reasoning):
                before = b'"delta":{"reasoning_content":"'
            elif isinstance(kind, CallArguments):
                before, after = b'"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"' % call, b'"}}]}'
            frame = self._frames[key] = self._heads[index] + before, after + self._end
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
        before, after = self.frame(index, delta)
        text = dumps(delta.text)[1:-1]
        if not isinstance(delta, Text) or not delta.entries:
            return b"".join((before, text, after))
        logprobs = dumps(self._api.logprobs(list(delta.entries), self._model, 0))
        return b'%b%b"},"logprobs":%b,"finish_reason":null}]%b' % (before, text, logprobs, self._tail)

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
        shown = [self._choice(index, choice) for index, choice in enumerate(choices)]
        return dumps({**self._fields, "choices": shown, "usage": usage_fields(counts), **self._fingerprint})

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        text, thoughts, calls, entries = choice.text, choice.reasoning, choice.calls, choice.entries
        message: dict[str, Any] = {
            "role": "assistant",
            # OpenAI's API has null where there are calls alone.
            "content": text if text or not calls else None,
            "refusal": None,
        }
        if thoughts:
            message["reasoning_content"] = thoughts
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        logprobs = self._api.logprobs(entries, self._model, 0) if entries else None
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": choice.finish_name}
