"""One HTTP request of a proxy, as its stream of external processing tells it.

The answer to the request's headers is held back until its body's end has come, for that decides where it goes. Then the
headers are answered, and the body is passed on as it came. Of the response everything passes at once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from gateway.api.server.error_form import error_headers
from gateway.api.server.openai_errors import error_body
from gateway.endpoint_picker.answer_watch import AnswerWatch
from gateway.endpoint_picker.asked import NOTHING, asked_in
from gateway.endpoint_picker.flight import Flight
from gateway.endpoint_picker.picked_model import PickedModels
from gateway.endpoint_picker.picker import Picked, Picker
from gateway.endpoint_picker.picker_metrics import Outcome, PickerMetrics
from gateway.rpc.rpc_server import CallRefused
from observability.logs import RateLimit
from protos.errors import BodyTooLarge, InternalError, ModelNotFound, Overloaded, PenstockError, ReplicaUnavailable
from protos.ext_proc_codec import (
    UNCHANGED,
    BodyMode,
    Kind,
    Message,
    answer_at_once,
    answer_body,
    answer_request_headers,
    decode,
)
from protos.protocol_error import ProtocolError

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=5))

#: The longest body of a request, in bytes; a longer one is answered with 413.
MAX_BODY_BYTES: Final = 10 << 20
#: Bytes of all bodies that are held until their requests are picked for; beyond, requests are answered with 429.
MAX_HELD_BYTES: Final = 1 << 30
_JSON: Final = (b"content-type", b"application/json")
_LONGEST_ECHO: Final = 128


class Wire(Protocol):
    """The stream to the proxy."""

    async def read(self) -> bytes | None:
        """Return the next message; None: there is none."""
        ...

    async def write(self, message: bytes) -> None: ...


class Held:
    """The bytes of bodies that a process holds."""

    def __init__(self) -> None:
        self.bytes = 0


class Exchange:
    """Picks for one request and follows its answer; `run` returns when the stream has ended."""

    def __init__(self, wire: Wire, models: PickedModels, picker: Picker, metrics: PickerMetrics, held: Held) -> None:
        self._wire = wire
        self._models = models
        self._picker = picker
        self._metrics = metrics
        self._headers: Message | None = None
        self._held = held
        self._pieces: list[bytes] = []
        #: Bytes of the body that are held.
        self._size = 0
        self._flight: Flight | None = None
        self._watch: AnswerWatch | None = None
        self._status = 200
        self._first = True
        #: Whether the proxy has been told what becomes of the request.
        self._answered = False

    async def run(self) -> None:
        """Raises CallRefused for what no proxy may send."""
        try:
            # Once the request is answered here, the proxy has nothing more to say.
            while (data := await self._wire.read()) is not None and await self._take(_decoded(data)):
                pass
        finally:
            self._let_go()
            if self._flight is not None:
                self._flight.close()
            elif self._headers is not None and not self._answered:
                self._metrics.count(Outcome.LEFT)

    async def _take(self, message: Message) -> bool:
        """Take one message; False: nothing more is to be done."""
        kind = message.kind
        if self._first:
            self._first = False
            _check_modes(message)
        if kind is Kind.REQUEST_BODY:
            return await self._take_body(message)
        if kind is Kind.RESPONSE_BODY:
            await self._take_answer(message)
        elif kind is Kind.REQUEST_HEADERS:
            return await self._take_headers(message)
        elif kind is Kind.RESPONSE_HEADERS:
            await self._answer_begins(message)
        elif kind is Kind.REQUEST_TRAILERS:
            # A body that trailers follow has no other end.
            if not self._answered and not await self._decide(end=False):
                return False
            await self._wire.write(UNCHANGED[kind])
        else:
            self._answer_ends()
            await self._wire.write(UNCHANGED[kind])
        return True

    async def _take_headers(self, message: Message) -> bool:
        if self._headers is not None:
            raise CallRefused("the headers of a second request in one stream")
        self._headers = message
        if message.end or message.request_body is BodyMode.NONE:
            return await self._decide(end=True)
        return True

    async def _take_body(self, message: Message) -> bool:
        if self._headers is None:
            raise CallRefused("a body before the headers")
        if self._answered:
            raise CallRefused("a body after its end")
        self._pieces.append(message.body)
        self._size += len(message.body)
        self._held.bytes += len(message.body)
        if self._size > MAX_BODY_BYTES:
            error = BodyTooLarge(f"The body is longer than {MAX_BODY_BYTES} bytes.")
            return await self._refuse(error, Outcome.TOO_LARGE)
        if self._held.bytes > MAX_HELD_BYTES:
            full = Overloaded("The endpoint picker holds as much as it may. Try again later.", retry_after=1.0)
            return await self._refuse(full, Outcome.SHED, status=429)
        return await self._decide(end=True) if message.end else True

    def _let_go(self) -> None:
        """Hold the body no longer."""
        self._held.bytes -= self._size
        self._pieces, self._size = [], 0

    async def _decide(self, *, end: bool) -> bool:
        """Pick, answer the request's headers, and pass its body on; False: the request is answered here.

        `end`: nothing follows the body.
        """
        headers = self._headers
        if headers is None:
            raise CallRefused("a request without headers")
        # Joined once: a proxy sends pieces of some kilobytes, and fewer are passed on.
        body, has_body, self._pieces = b"".join(self._pieces), bool(self._pieces), []
        try:
            picked = await self._pick(headers, body)
        except Overloaded as error:
            return await self._refuse(error, Outcome.SHED, status=429)
        except ReplicaUnavailable as error:
            return await self._refuse(error, Outcome.NO_ENDPOINT)
        except PenstockError as error:
            return await self._refuse(error, Outcome.REFUSED)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("no decision on a request")
            return await self._refuse(InternalError("The endpoint picker failed on this request."), Outcome.FAILED)
        self._flight = picked.flight
        self._answered = True
        self._metrics.count(Outcome.PICKED)
        await self._wire.write(answer_request_headers(picked.endpoints, picked.prefiller))
        if has_body:
            for answer in answer_body(Kind.REQUEST_BODY, body, end):
                await self._wire.write(answer)
        self._let_go()
        return True

    async def _pick(self, headers: Message, body: bytes) -> Picked:
        began = self._metrics.now()
        asked = asked_in(body) if body else NOTHING
        model = self._models.find(asked.model)
        if model is None:
            shown = asked.model[:_LONGEST_ECHO]
            raise ModelNotFound(f"The model '{shown}' does not exist.", param="model")
        if headers.subset is not None and not headers.subset:
            raise ReplicaUnavailable("No endpoint of the gateway's subset can take the request.")
        picked = await self._picker.pick(model, asked, headers.subset, headers.headers.get("x-request-id", ""))
        self._metrics.picked(self._metrics.now() - began)
        return picked

    async def _refuse(self, error: PenstockError, outcome: Outcome, status: int = 0) -> bool:
        self._answered = True
        self._metrics.count(outcome)
        headers = [_JSON, *error_headers(error)]
        answer = answer_at_once(status or error.status, headers, error_body(error), f"penstock_epp_{outcome.value}")
        await self._wire.write(answer)
        return False

    async def _answer_begins(self, message: Message) -> None:
        status = message.headers.get(":status", "")
        self._status = int(status) if status.isascii() and status.isdigit() else 200
        if self._flight is not None:
            self._flight.served(message.served)
        if message.end:
            self._answer_ends()
        await self._wire.write(UNCHANGED[Kind.RESPONSE_HEADERS])

    async def _take_answer(self, message: Message) -> None:
        if self._flight is not None and message.body:
            if self._watch is None:
                self._watch = AnswerWatch()
                self._flight.begins()
            self._watch.feed(message.body)
        if message.end:
            self._answer_ends()
        for answer in answer_body(Kind.RESPONSE_BODY, message.body, message.end):
            await self._wire.write(answer)

    def _answer_ends(self) -> None:
        flight, watch = self._flight, self._watch
        if flight is None:
            return
        if watch is not None:
            flight.heard(watch.events, watch.counts())
        flight.ends(self._status)


def _decoded(data: bytes) -> Message:
    try:
        return decode(data)
    except ProtocolError as error:
        raise CallRefused(str(error)) from None


#: What a body mode must be, by the setting's name in Envoy's filter.
_MODES: Final[dict[str, Callable[[Message], BodyMode | None]]] = {
    "request_body_mode": lambda message: message.request_body,
    "response_body_mode": lambda message: message.response_body,
}


def _check_modes(message: Message) -> None:
    """Refuse a proxy that waits for an answer to the headers before it sends the body. Raises CallRefused."""
    for name, mode_of in _MODES.items():
        mode = mode_of(message)
        if mode not in (None, BodyMode.NONE, BodyMode.FULL_DUPLEX_STREAMED):
            raise CallRefused(f"processing_mode.{name} must be FULL_DUPLEX_STREAMED or NONE, not {mode.name}")
