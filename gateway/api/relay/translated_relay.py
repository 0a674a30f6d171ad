"""Translate an upstream's chat answer to another API while it is relayed."""

from collections.abc import Awaitable, Sequence
from typing import Any, Final

import msgspec

from gateway.api.relay.relayed_strings import unreadable
from gateway.api.server.error_form import ErrorForm
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.writers.api_adapter import ApiAdapter, Call, Choice, Counts, Renderer
from gateway.api.writers.parsed_encoder import counts_of
from gateway.inference.generation import Generation
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text, ToldLogprob
from observability.record import RequestRecord
from protos.errors import PenstockError, ReplicaFailed
from protos.types import FinishReason

_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"
#: Bound on an answer in one piece, in bytes.
_MOST_BYTES: Final = 64 * 1024 * 1024
#: Bound on the index of an upstream's tool calls.
_MOST_CALLS: Final = 1024
_REASONS: Final = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


#: Default of raw fields: msgspec's union of `Raw` and None would accept only null.
_NULL: Final = msgspec.Raw(b"null")


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _ChatMessage(msgspec.Struct, frozen=True):
    """A message, or a chunk's addition to one."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, frozen=True):
    """`stop_reason` is vLLM's and `matched_stop` SGLang's: the stop string that ended it, if it is a string."""

    index: int = 0
    delta: _ChatMessage | None = None
    message: _ChatMessage | None = None
    finish_reason: str | None = None
    logprobs: msgspec.Raw = _NULL
    stop_reason: Any = None
    matched_stop: Any = None


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[ToldLogprob] | None = None


class _Answer(msgspec.Struct, frozen=True):
    choices: list[_Choice] | None = None
    error: msgspec.Raw = _NULL


_decode: Final = msgspec.json.Decoder(_Answer).decode
_decode_logprobs: Final = msgspec.json.Decoder(_Logprobs | None).decode


class TranslatedRelay:
    """The `RelayTarget` that renders an upstream's answer in another API (gateway/api/relay/relay_answer.py)."""

    def __init__(self, exchange: HttpExchange, generation: Generation, renderer: Renderer, adapter: ApiAdapter) -> None:
        self._exchange = exchange
        self._generation = generation
        self._renderer = renderer
        self._adapter = adapter
        self._calls: dict[int, int] = {}
        self._rest = b""
        self._ended: set[int] = set()
        self._done = False
        self._error: PenstockError | None = None
        self._body: list[bytes] | None = None
        self._stopped_by: str | None = None

    @property
    def record(self) -> RequestRecord:
        return self._exchange.record

    @property
    def errors(self) -> ErrorForm:
        """No error form: the renderer writes errors itself."""
        return ErrorForm(lambda _: b"", lambda _: b"")

    def note_failure(self, error: PenstockError) -> None:
        self._error = error
        self._exchange.note_failure(error)

    def unwatch(self) -> None:
        self._exchange.unwatch()

    async def start_stream(self) -> None:
        await self._exchange.start_stream()
        await self._exchange.write(self._renderer.opening())

    async def start_body(self, length: int | None) -> None:
        """Gather the answer: it must be whole before it can be translated."""
        del length
        self._body = []

    def write(self, body: bytes) -> Awaitable[None]:
        """Translate the next part; drop what the other API has no place for."""
        if self._body is not None:
            self._body.append(body)
            if sum(map(len, self._body)) > _MOST_BYTES:
                raise unreadable(f"its answer is longer than {_MOST_BYTES} bytes")
            return _nothing()
        shown = self._events(body)
        return self._exchange.write(shown) if shown else _nothing()

    async def end(self, body: bytes = b"") -> None:
        """Translate the last part. Raises the error that an answer in one piece ended with."""
        if self._body is not None:
            if self._error is not None:
                raise self._error
            await self.respond(200, b"".join([*self._body, body]))
            return
        shown = self._events(body)
        for index in self._open() if self._done else ():
            # The upstream ended the stream well, without a finish reason for this choice.
            shown += self._renderer.render(index, [], FinishReason.STOP)
            self._ended.add(index)
        if self._error is None and self._open():
            self.note_failure(ReplicaFailed("The model's upstream did not answer to the end."))
        if self._error is not None:
            await self._exchange.end(shown + self._renderer.broken(self._error))
            return
        end = self._renderer.closing(self._counts())
        try:
            await self._adapter.store_answer()
        except PenstockError as error:
            self.note_failure(error)
            end = self._renderer.broken(error)
        await self._exchange.end(shown + end)

    async def respond(self, status: int, body: bytes, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Translate a chat's whole answer."""
        try:
            found = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise unreadable("its answer is not a chat's") from None
        if not found.choices:
            raise unreadable("its answer has no choices")
        self._note_stop(found.choices[0])
        answer = self._renderer.whole([_whole(choice) for choice in found.choices], self._counts())
        await self._adapter.store_answer()
        await self._exchange.respond(status, answer, headers=headers)

    def _counts(self) -> Counts:
        return msgspec.structs.replace(counts_of(self._generation), stopped_by=self._stopped_by)

    def _note_stop(self, choice: _Choice) -> None:
        """Note the stop string, which must be one that the client asked for."""
        for stop in (choice.stop_reason, choice.matched_stop):
            if choice.index == 0 and isinstance(stop, str) and stop in self._generation.request.stops:
                self._stopped_by = stop

    def _open(self) -> list[int]:
        return [index for index in range(len(self._generation.sequences)) if index not in self._ended]

    def _events(self, part: bytes) -> bytes:
        """Translate a part of the stream, which may hold several chunks."""
        *events, self._rest = (self._rest + part).split(b"\n\n")
        shown = b""
        for event in events:
            if self._error is None and (data := _data(event)):
                shown += self._event(data)
        return shown

    def _event(self, data: bytes) -> bytes:
        if data == _DONE:
            self._done = True
            return b""
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.note_failure(unreadable("a chunk of its answer is not a chat's"))
            return b""
        if bytes(chunk.error) != b"null":
            self.note_failure(ReplicaFailed("The model's upstream failed on this request."))
            return b""
        shown = b""
        for choice in chunk.choices or ():
            if choice.index in self._ended or not 0 <= choice.index < len(self._generation.sequences):
                continue
            deltas = self._deltas(choice.delta, choice.logprobs) if choice.delta is not None else []
            finish = None if choice.finish_reason is None else _REASONS.get(choice.finish_reason, FinishReason.STOP)
            if finish is not None:
                self._ended.add(choice.index)
                self._note_stop(choice)
            if deltas or finish is not None:
                shown += self._renderer.render(choice.index, deltas, finish)
        return shown

    def _deltas(self, message: _ChatMessage, logprobs: msgspec.Raw) -> list[Delta]:
        deltas: list[Delta] = []
        if thought := message.reasoning_content or message.reasoning:
            deltas.append(Reasoning(thought))
        if text := message.content or message.refusal:
            deltas.append(Text(text) if bytes(logprobs) == b"null" else Text(text, told=_upstream_logprobs(logprobs)))
        for position, call in enumerate(message.tool_calls or ()):
            deltas += self._call(position if call.index is None else call.index, call)
        return deltas

    def _call(self, place: int, call: _Call) -> list[Delta]:
        deltas: list[Delta] = []
        function = call.function or _Function()
        number = self._calls.get(place)
        if number is None:
            if not function.name or len(self._calls) >= _MOST_CALLS:
                return []
            number = self._calls[place] = len(self._calls)
            deltas.append(CallStart(number, call.id or f"call_{number}", function.name))
        if function.arguments:
            if number < len(self._calls) - 1:
                # Other APIs cannot return to a call once another one has begun.
                self.note_failure(unreadable("pieces of several tool calls are mixed in its answer"))
                return []
            deltas.append(CallArguments(number, function.arguments))
        return deltas


def _data(event: bytes) -> bytes:
    """Extract an event's data, past its name, id and comments."""
    if b"\n" not in event:
        return event[len(_DATA) :].strip() if event.startswith(_DATA) else b""
    return b"\n".join(line[len(_DATA) :] for line in event.split(b"\n") if line.startswith(_DATA)).strip()


def _whole(choice: _Choice) -> Choice:
    """Convert a message to a choice: reasoning first and calls last, as models write them."""
    message = choice.message or _ChatMessage()
    parts: list[Text | Reasoning | Call] = []
    if thought := message.reasoning_content or message.reasoning:
        parts.append(Reasoning(thought))
    if text := message.content or message.refusal:
        parts.append(Text(text, told=_upstream_logprobs(choice.logprobs)))
    named = [(call.id or f"call_{place}", call.function) for place, call in enumerate(message.tool_calls or ())]
    parts += [Call(id_, one.name, one.arguments or "") for id_, one in named if one is not None and one.name]
    return Choice(tuple(parts), _REASONS.get(choice.finish_reason or "stop", FinishReason.STOP))


def _upstream_logprobs(logprobs: msgspec.Raw) -> list[ToldLogprob]:
    """Convert an upstream's logprobs, if they are in the chat's form."""
    try:
        found = _decode_logprobs(logprobs)
    except msgspec.DecodeError:
        return []
    return (found.content or []) if found is not None else []


async def _nothing() -> None:
    """Send nothing."""
