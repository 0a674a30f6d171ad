"""One HTTP/1.1 connection to an upstream: one exchange at a time, its answer parsed by httptools."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from routing.transports.http.http1_request import Fault, Http1Request, HttpFailure

log = logging.getLogger(__name__)

#: Bounds on the bytes of a head or anything else without body (trailers, chunk extensions), and on headers.
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 128


class TickLimits(Protocol):
    """Timeouts of a connection in ticks of the pool."""

    @property
    def first_byte(self) -> int:
        """Ticks from the request to the first byte of the answer's body."""
        ...

    @property
    def between_bytes(self) -> int:
        """Ticks between parts of the body."""
        ...

    @property
    def idle(self) -> int:
        """Ticks without a request."""
        ...


class Owner(Protocol):
    """Callbacks of a connection to its pool."""

    def release(self, connection: "HttpConnection") -> None:
        """The connection can take another request."""
        ...

    def lost(self, connection: "HttpConnection") -> None:
        """The connection is closed or about to be. Called once."""
        ...

    def resend(self, exchange: Http1Request) -> None:
        """Send the exchange again: the upstream had closed the connection before it, so nothing was answered."""
        ...


class _Refused(Exception):
    """The answer exceeds a bound or has a form that is not supported."""


class HttpConnection(asyncio.Protocol):
    """The `Carrier` of an exchange, once it is connected."""

    def __init__(self, owner: Owner, limits: TickLimits) -> None:
        self._owner = owner
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._feed: Callable[[bytes], None] = self._parser.feed_data
        self._exchange: Http1Request | None = None
        self._headers: dict[bytes, bytes] = {}
        self._lines = 0
        #: Bytes since the last byte of a body.
        self._bodiless_bytes = 0
        self._used = 0
        self._heard = self._headed = self._complete = self._until_end = self._clean = False
        self._paused = False
        #: Ticks without a byte, and their bound.
        self._silent_ticks = 0
        self._limit = limits.idle
        self._listed = True

    @property
    def closed(self) -> bool:
        """Whether it takes no more requests."""
        return self._transport is None or not self._listed

    def take(self, exchange: Http1Request) -> None:
        """Send a request on an idle connection."""
        assert self._exchange is None and self._transport is not None, "one at a time, on an open connection"
        self._exchange = exchange
        exchange.carrier = self
        self._used += 1
        self._headers = {}
        self._lines = self._bodiless_bytes = self._silent_ticks = 0
        self._heard = self._headed = self._complete = self._until_end = False
        self._clean = True
        self._limit = self._limits.first_byte
        self._transport.write(exchange.request)

    def tick(self) -> None:
        """Count a tick of the pool."""
        if self._paused:
            return
        self._silent_ticks += 1
        if self._silent_ticks <= self._limit:
            return
        if self._exchange is None:
            self._close()
        else:
            what = "its answer stood still" if self._heard else "nothing of its answer came"
            self._fail(Fault.TIMEOUT, f"{what} for too long")

    def expect_end(self, ticks: int) -> None:
        self._silent_ticks, self._limit = 0, ticks

    def cancel(self) -> None:
        self._exchange = None
        self._close()

    def pause(self) -> None:
        if not self._paused and self._transport is not None and not self._complete:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._silent_ticks = 0
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._silent_ticks = 0
        if self._exchange is None:
            self._close()  # an answer without a request
            return
        self._heard = True
        self._bodiless_bytes += len(data)
        try:
            self._feed(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._not_http(error)
            return
        if self._complete:
            self._end()
        elif self._bodiless_bytes > MAX_HEAD_BYTES:
            self._fail(Fault.NONSENSE, f"more than {MAX_HEAD_BYTES} bytes without a body")

    def eof_received(self) -> None:
        if self._exchange is None:
            self._close()
        elif self._until_end:
            self._clean = False
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._feed = _discard  # breaks the reference cycle: the parser holds on to this object
        exchange = self._exchange
        if exchange is not None and not self._heard and self._used > 1 and not exchange.retried:
            self._exchange = exchange.carrier = None
            exchange.retried = True
            self._leave()
            self._owner.resend(exchange)
            return
        when = "within its answer" if self._heard else "without an answer"
        self._fail(Fault.CUT, f"the connection was closed {when}{f': {exc}' if exc is not None else ''}")

    # httptools' callbacks

    def on_message_begin(self) -> None:
        if self._complete:
            self._clean = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head or the trailers."""
        self._lines += 1
        self._headers[name.lower()] = value
        if self._lines > MAX_HEADERS:
            raise _Refused(f"more than {MAX_HEADERS} headers")

    def on_headers_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or self._complete:
            return
        status, headers = self._parser.get_status_code(), self._headers
        if status < 200:
            if status == 101:
                raise _Refused("it changes the protocol")
            return
        if (
            self._bodiless_bytes > MAX_HEAD_BYTES
            and sum(map(len, headers)) + sum(map(len, headers.values())) > MAX_HEAD_BYTES
        ):
            raise _Refused(f"a head of more than {MAX_HEAD_BYTES} bytes")
        coding = headers.get(b"transfer-encoding")
        if coding is not None and coding.strip().lower() != b"chunked":
            raise _Refused("a transfer coding that was not asked for")
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise _Refused("a content coding that was not asked for")
        self._headed = True
        self._until_end = coding is None and b"content-length" not in headers and status not in (204, 304)
        exchange.answered(status, headers)

    def on_body(self, data: bytes) -> None:
        self._bodiless_bytes = 0
        self._limit = self._limits.between_bytes
        if self._exchange is not None and not self._complete:
            self._exchange.received(data)

    def on_message_complete(self) -> None:
        """End the exchange, unless this was an interim (1xx) answer."""
        if self._headed:
            self._complete = True
            # Ask now: the parser resets this.
            self._clean = self._clean and self._parser.should_keep_alive()
        else:
            self._headers = {}

    def _end(self) -> None:
        exchange, self._exchange = self._exchange, None
        self.resume()
        if self._clean and self._is_at_rest():
            self._silent_ticks, self._limit = 0, self._limits.idle
            # Before `ended`, whose callee may send the next request at once.
            self._owner.release(self)
        else:
            self._close()
        if exchange is not None:
            exchange.carrier = None
            exchange.ended()

    def _is_at_rest(self) -> bool:
        """Whether it is open and all of the request is sent: a peer that answered early may misread the rest."""
        transport = self._transport
        if transport is None or not self._listed:
            return False
        return not transport.is_closing() and not transport.get_write_buffer_size()

    def _not_http(self, error: Exception) -> None:
        if self._complete:  # the invalid bytes follow a complete answer
            self._clean = False
            self._end()
            return
        cause = error.__context__
        if isinstance(error, HttpParserCallbackError) and not isinstance(cause, _Refused):
            log.error("reading an upstream's answer", exc_info=error)
        what = str(cause) if isinstance(cause, _Refused) else f"its answer is not HTTP/1.1: {error}"
        self._fail(Fault.NONSENSE, what)

    def _fail(self, fault: Fault, problem: str) -> None:
        exchange, self._exchange = self._exchange, None
        self._close()
        if exchange is not None:
            exchange.carrier = None
            exchange.failed(HttpFailure(fault, problem))

    def _close(self) -> None:
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def _leave(self) -> None:
        if self._listed:
            self._listed = False
            self._owner.lost(self)


def _discard(data: bytes) -> None:
    """Discard data."""
