"""Translate an upstream's chat answer to another API while it is relayed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from gateway.api.relay.answer_order import AnswerOrder, ordered
from gateway.api.relay.chat_reading import ChoicePiece, read_answer, unreadable_answer
from gateway.api.server.error_form import ErrorForm
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.writers.api_adapter import ApiAdapter, Counts, Renderer, joined
from gateway.api.writers.parsed_encoder import counts_of
from gateway.inference.generation import Generation
from observability.record import RequestRecord
from protos.errors import PenstockError, ReplicaFailed
from protos.types import FinishReason

_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"
#: Bound on an answer in one piece, in bytes.
_MOST_BYTES: Final = 64 * 1024 * 1024


class TranslatedRelay:
    """The `RelayTarget` that renders an upstream's answer in another API (gateway/api/relay/relay_answer.py)."""

    def __init__(self, exchange: HttpExchange, generation: Generation, renderer: Renderer, adapter: ApiAdapter) -> None:
        self._exchange = exchange
        self._generation = generation
        self._renderer = renderer
        self._adapter = adapter
        self._choices = [AnswerOrder() for _ in generation.sequences]
        #: A choice's finish reason is written at the end of the stream: text may still follow it.
        self._finishes: list[FinishReason | None] = [None for _ in generation.sequences]
        #: A choice that was not asked for.
        self._stray: int | None = None
        self._rest = b""
        self._done = False
        self._error: PenstockError | None = None
        self._body: list[bytes] | None = None
        self._size = 0
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
            self._size += len(body)
            if self._size > _MOST_BYTES:
                raise unreadable_answer(f"it is longer than {_MOST_BYTES} bytes")
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
        if self._error is None and not self._done:
            shown += self._guarded(self._ends)
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
        found = read_answer(body, whole=True)
        if not found:
            raise unreadable_answer("choices")
        for piece in found:
            self._note_stop(piece)
        choices = [joined(ordered(piece), piece.finish or FinishReason.STOP) for piece in found]
        answer = self._renderer.whole(choices, self._counts())
        await self._adapter.store_answer()
        await self._exchange.respond(status, answer, headers=headers)

    def _counts(self) -> Counts:
        return msgspec.structs.replace(counts_of(self._generation), stopped_by=self._stopped_by)

    def _note_stop(self, piece: ChoicePiece) -> None:
        """Note the stop string, which must be one that the client asked for."""
        for stop in piece.stops:
            if piece.number == 0 and stop in self._generation.request.stops:
                self._stopped_by = stop

    def _ends(self) -> bytes:
        """Write the ends of the choices. Raises ReplicaFailed: the answer is not whole, or lost."""
        if not self._done and None in self._finishes:
            raise ReplicaFailed("The model's upstream did not answer to the end.")
        if self._stray is not None and any(choice.empty for choice in self._choices):
            raise unreadable_answer(f"choices of index {self._stray}, of {len(self._choices)}")
        shown = b""
        for index, choice in enumerate(self._choices):
            # An upstream may end the stream well without a finish reason.
            finish = self._finishes[index] or FinishReason.STOP
            shown += self._renderer.render(index, choice.end(finish), finish)
        return shown

    def _events(self, part: bytes) -> bytes:
        """Translate a part of the stream, which may hold several chunks."""
        *events, self._rest = (self._rest + part).split(b"\n\n")
        shown = b""
        for event in events:
            if self._error is None and (data := _data(event)):
                shown += self._event(data)
        return shown

    def _event(self, data: bytes) -> bytes:
        if self._done:
            return b""
        if data != _DONE:
            return self._guarded(lambda: b"".join(map(self._piece, read_answer(data))))
        self._done = True
        return self._guarded(self._ends)

    def _guarded(self, render: Callable[[], bytes]) -> bytes:
        """Render; note what an answer that cannot be read fails with, and render nothing."""
        try:
            return render()
        except PenstockError as error:
            self.note_failure(error)
            return b""

    def _piece(self, piece: ChoicePiece) -> bytes:
        index = piece.number
        if index >= len(self._choices):
            self._stray = index
            return b""
        deltas = self._choices[index].add(piece)
        if piece.finish is not None:
            # Of two, the one that says more.
            if self._finishes[index] in (None, FinishReason.STOP):
                self._finishes[index] = piece.finish
            self._note_stop(piece)
        return self._renderer.render(index, deltas, None) if deltas else b""


def _data(event: bytes) -> bytes:
    """Extract an event's data, past its name, id and comments."""
    if b"\n" not in event:
        return event[len(_DATA) :].strip() if event.startswith(_DATA) else b""
    return b"\n".join(line[len(_DATA) :] for line in event.split(b"\n") if line.startswith(_DATA)).strip()


async def _nothing() -> None:
    """Send nothing."""
