"""The call for an answer of an OpenAI-compatible upstream that is one JSON object."""

from collections.abc import Mapping
from typing import Any, Final

from protos.types import Payload, Submit
from routing.transports.mailbox import Mailbox
from routing.transports.openai.model_name import ModelName
from routing.transports.openai.relay import ByteRelay
from routing.transports.openai.upstream_call import Upstream, UpstreamCall
from routing.transports.openai.upstream_usage import answer_in, answered_tokens, usage_in_tail

#: An answer up to this size is buffered and checked before it is relayed; a longer one is relayed in parts.
MOST_WHOLE_BYTES: Final = 1024 * 1024
#: The last bytes of a longer answer, held back to read its usage from.
TAIL_BYTES: Final = 16 * 1024
#: Bytes of an answer per token, for estimates.
_TOKEN_BYTES: Final = 4


class JsonCall(UpstreamCall):
    """Relays the answer once it is complete, unless it is long."""

    media = b"application/json"

    __slots__ = ("_model", "_most_tokens", "_parts", "_size", "_tail", "tokens", "usage")

    def __init__(self, upstream: Upstream, request: bytes, payload: Payload, submit: Submit, mailbox: Mailbox) -> None:
        super().__init__(upstream, request, payload, submit, mailbox)
        self._model = ModelName(payload.answer_model)
        self._most_tokens = submit.max_tokens * submit.sampling.n
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""
        #: As a relay's `Progress`.
        self.tokens = 0
        self.usage: Mapping[str, Any] | None = None

    def body_part(self, data: bytes) -> None:
        if self.over:
            return
        self._size += len(data)
        if self.relay is not None:
            self._more(self.relay, data)
            return
        self._parts.append(data)
        if self._size > MOST_WHOLE_BYTES:
            self._begin_long()

    def body_ended(self) -> None:
        if self.relay is not None:
            self._end_long(self.relay)
            return
        body = b"".join(self._parts)
        self._parts.clear()
        try:
            answer = answer_in(body)
        except ValueError:
            self.fail("its answer is not a whole JSON object")
            return
        if answer.is_error:
            self.fail_with(bytes(answer.error or b"{}"), "its answer is an error with a good status")
            return
        if answer.choices is None and self.payload.path.endswith("/completions"):
            self.fail("its answer has no choices")
            return
        shown = self._model.shown(body)
        relay = ByteRelay(self, streamed=False, pause=self.pause, resume=self.resume)
        relay.length = len(shown)
        self.usage = answer.told
        counts = relay.counts
        if counts is None or counts.completion is None:
            self.tokens = min(answered_tokens(body), self._most_tokens)
        else:
            self.tokens = counts.completion
        relay.put(shown)
        self.begin(relay, counts.cached if counts is not None else 0)
        cut = {choice.index for choice in answer.choices or () if choice.finish_reason == "length"}
        self.finish(cut)

    def _begin_long(self) -> None:
        first = b"".join(self._parts)
        self._parts.clear()
        if not first.lstrip().startswith(b"{"):
            self.fail("its answer is not a JSON object")
            return
        relay = ByteRelay(self, streamed=False, pause=self.pause, resume=self.resume)
        self.tokens = self._guess()
        self._tail = first[-TAIL_BYTES:]
        relay.put(self._model.shown(first[:-TAIL_BYTES]))
        self.begin(relay)

    def _more(self, relay: ByteRelay, data: bytes) -> None:
        self.tokens = self._guess()
        held = self._tail + data
        self._tail = held[-TAIL_BYTES:]
        if len(held) > TAIL_BYTES:
            relay.put(held[:-TAIL_BYTES])

    def _end_long(self, relay: ByteRelay) -> None:
        tail, self._tail = self._tail, b""
        if not tail.rstrip().endswith(b"}"):
            self.fail("its answer is not a whole JSON object")
            return
        relay.put(self._model.shown(tail))
        self.usage = usage_in_tail(tail)
        self.finish(set())

    def _guess(self) -> int:
        return min(self._size // _TOKEN_BYTES, self._most_tokens)
