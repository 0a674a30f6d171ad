"""The client side of one HTTP/2 connection (RFC 9113) that carries gRPC calls."""

import asyncio
import logging
from collections.abc import Mapping
from struct import Struct
from typing import Final, cast

import hpack

from protos.protocol_error import ProtocolError
from routing.transports.http2.grpc_call import Call, Handler, framed
from routing.transports.http2.grpc_status import Fields, Status, of_http, of_reset, of_trailers

log = logging.getLogger(__name__)

#: A connection with calls on which nothing came for this many ticks is pinged and has one tick to answer. Servers take
#: more than one ping in 10 s for an attack.
TICK_SECONDS: Final = 5.0
QUIET_TICKS: Final = 4
#: Receive window: data is delivered at once, so it is the largest possible.
WINDOW: Final = 2**31 - 1
#: Bytes of header fields in one block, encoded, and decoded as HPACK counts them.
MAX_BLOCK: Final = 65_536
#: Unsent bytes above which a peer that demands replies is disconnected; more than requests can amount to.
MAX_UNREAD: Final = 64 << 20

_DATA, _HEADERS, _RESET, _SETTINGS, _PUSH, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_TABLE_SIZE, _MAY_PUSH, _MAX_CALLS, _INITIAL_WINDOW, _FRAME_SIZE = 1, 2, 3, 4, 5
_NO_ERROR, _PROTOCOL_ERROR, _CANCEL = 0, 1, 8
_HEADER: Final = Struct(">BHBBI")
_HEADER_BYTES: Final = _HEADER.size
_U32: Final = Struct(">I")
_SETTING: Final = Struct(">HI")
_PING_BYTES: Final = 8
_MAX_FRAME: Final = 16_384
#: Valid values of settings (RFC 9113, 6.5.2).
_BOUNDS: Final = {_INITIAL_WINDOW: range(WINDOW + 1), _FRAME_SIZE: range(_MAX_FRAME, 1 << 24)}
_LAST_NUMBER: Final = 2**31 - 1
_MAX_KNOWN: Final = 128


def _frame(kind: int, flags: int, number: int, payload: bytes | memoryview = b"") -> bytes:
    length = len(payload)
    return _HEADER.pack(length >> 16, length & 0xFFFF, kind, flags, number) + payload


_PREFACE: Final = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(
        _SETTINGS,
        0,
        0,
        b"".join(_SETTING.pack(*each) for each in ((_TABLE_SIZE, 0), (_MAY_PUSH, 0), (_INITIAL_WINDOW, WINDOW))),
    )
    + _frame(_WINDOW, 0, 0, _U32.pack(WINDOW - 65_535))
)


class Full(ConnectionError):
    """The peer takes no more concurrent calls than the `calls` in flight here."""

    def __init__(self, calls: int, most: int) -> None:
        super().__init__(f"the peer takes {most} calls at a time")
        self.calls = calls


class Connection(asyncio.Protocol):
    """A connection. `ready` is done once the peer has shown HTTP/2, or fails with ProtocolError or ConnectionError.

    Once `closing` it takes no new calls and ends with its last one.
    """

    def __init__(self, authority: str, scheme: str, largest: int) -> None:
        """`largest` bounds a message, in bytes."""
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.closing = False
        self._loop = loop
        self._largest = largest
        self._fields = (
            (b":method", b"POST"),
            (b":scheme", scheme.encode()),
            (b":authority", authority.encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"penstock"),
        )
        # Neither side uses a dynamic table, so that a block always means the same and can be cached.
        self._encoder = hpack.Encoder()
        self._encoder.header_table_size = 0
        self._decoder = hpack.Decoder(MAX_BLOCK)
        self._decoder.header_table_size = self._decoder.max_allowed_table_size = 0
        self._blocks: dict[str, bytes] = {}  # path -> header block
        self._known: dict[bytes, Fields] = {}  # cache of the peer's decoded blocks, of which few differ
        self._calls: dict[int, Call] = {}
        self._starved: dict[int, Call] = {}
        self._next = 1
        self._rest = b""
        self._block: tuple[int, int, bytearray] | None = None  # stream number, flags and start of a continued block
        self._window = 65_535
        self._call_window = 65_535
        self._frame_size = _MAX_FRAME
        self._most = _LAST_NUMBER
        self._taken = 0
        self._quiet = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the connection preface and settings."""
        self._transport = cast(asyncio.WriteTransport, transport)  # a cast, since uvloop has a type of its own
        self._transport.write(_PREFACE)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def connection_lost(self, error: Exception | None) -> None:
        """End every call."""
        self._over(f"the connection was closed{f': {error}' if error else ''}")

    def start(self, path: str, message: bytes, handler: Handler, metadata: Mapping[str, str] | None = None) -> Call:
        """Begin a call. Raises ConnectionError if the connection takes none, Full if it may take one soon.

        `metadata` has names in lower case and a few hundred bytes at most. No callback of the handler is called before
        this returns.
        """
        if self.closing or self._transport is None:
            raise ConnectionError("the connection is closed")
        if len(self._calls) >= self._most:
            raise Full(len(self._calls), self._most)
        block = self._blocks.get(path)
        if block is None:
            fields = (*self._fields[:1], (b":path", path.encode()), *self._fields[1:])
            block = self._blocks[path] = self._encoder.encode(fields)
        if metadata:
            block += self._encoder.encode(metadata.items(), huffman=False)
        number = self._next
        self._next += 2
        call = Call(number, handler, self, self._call_window, self._largest)
        self._calls[number] = call
        if self._next > _LAST_NUMBER:
            self.closing = True
        call.pending = memoryview(framed(message))
        self._transport.write(_frame(_HEADERS, _END_HEADERS, number, block) + self._sendable(call))
        return call

    def cancel(self, call: Call) -> None:
        self._forget(call)
        self._write(_frame(_RESET, 0, call.number, _U32.pack(_CANCEL)))
        self._close_if_done()

    def end(self, call: Call, status: Status, details: str) -> None:
        self.cancel(call)
        self._end_handler(call, status, details)

    def close(self, why: str = "the connection is closed") -> None:
        """End every call and the connection."""
        self._write(_frame(_GOAWAY, 0, 0, _U32.pack(0) + _U32.pack(_NO_ERROR)))
        self._over(why)

    def close_when_done(self) -> None:
        """Take no more calls, and close after the last one."""
        self.closing = True
        self._close_if_done()

    def data_received(self, data: bytes) -> None:
        """Parse complete frames."""
        self._quiet = 0
        if self._rest:
            data = self._rest + data
        at, size, calls = 0, len(data), self._calls
        try:
            while size - at >= _HEADER_BYTES:
                high, low, kind, flags, number = _HEADER.unpack_from(data, at)
                begin = at + _HEADER_BYTES
                at = begin + (high << 16 | low)
                if at - begin > _MAX_FRAME:
                    raise ProtocolError(_guess(data))
                if at > size:
                    at = begin - _HEADER_BYTES
                    break
                if kind == _DATA and not flags and self._block is None:
                    # Fast path: one such frame comes per token.
                    call = calls.get(number)
                    if call is not None:
                        call.feed(data[begin:at])
                    self._take(call, at - begin)
                else:
                    self._read(kind, flags, number, data[begin:at])
        except ProtocolError as error:
            self._write(_frame(_GOAWAY, 0, 0, _U32.pack(0) + _U32.pack(_PROTOCOL_ERROR)))
            self._over(f"another protocol is spoken there: {error}", error)
            return
        except Exception as error:
            log.exception("a connection's data cannot be handled")
            self._over(f"the connection failed: {error!r}")
            return
        self._rest = data[at:]

    def _read(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if (self._block is not None) != (kind == _CONTINUATION):
            raise ProtocolError("frames within a header block")
        if not self.ready.done() and kind != _SETTINGS:
            raise ProtocolError("a connection that does not begin with settings")
        if kind in (_DATA, _HEADERS):
            self._read_stream(kind, flags, number, payload)
        elif kind == _CONTINUATION:
            self._continue(flags, number, payload)
        elif kind == _RESET:
            call = self._calls.get(number)
            if call is not None:
                self._finish(call, *of_reset(_number(payload)))
        elif kind == _SETTINGS:
            self._configure(flags, payload)
        elif kind == _PING:
            if len(payload) != _PING_BYTES:
                raise ProtocolError("a ping of the wrong size")
            if not flags & _ACK:
                self._reply(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY:
            self._go_away(payload)
        elif kind == _WINDOW:
            self._widen(number, _number(payload) & 0x7FFF_FFFF)
        elif kind == _PUSH:
            raise ProtocolError("a push, which was not offered")

    def _read_stream(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        call, length = self._calls.get(number), len(payload)
        if flags & _PADDED:
            if not payload or payload[0] >= len(payload):
                raise ProtocolError("a frame with more padding than it has")
            payload = payload[1 : len(payload) - payload[0]]
        if kind == _HEADERS:
            if flags & _PRIORITY:
                payload = payload[5:]
            self._block = (number, flags, bytearray(payload))
            self._continue(flags, number, b"")
            return
        if call is not None:
            call.feed(payload)
            if flags & _END_STREAM and call.open:
                self._finish(call, Status.UNKNOWN, "the call ended without a status")
        self._take(call, length)

    def _continue(self, flags: int, number: int, payload: bytes) -> None:
        assert self._block is not None
        begun, first_flags, block = self._block
        block += payload
        if begun != number or len(block) > MAX_BLOCK:
            raise ProtocolError("a header block of two streams, or one that is too large")
        if not flags & _END_HEADERS:
            return
        self._block = None
        call = self._calls.get(number)
        if call is not None:
            self._headers(call, self._decoded(bytes(block)), ends=bool(first_flags & _END_STREAM))

    def _decoded(self, block: bytes) -> Fields:
        fields = self._known.get(block)
        if fields is None:
            try:
                fields = tuple(self._decoder.decode(block, raw=True))
            except hpack.HPACKError as error:
                # The error's type only: the library's text contains the whole block.
                raise ProtocolError(f"a bad header block ({type(error).__name__})") from error
            if len(self._known) < _MAX_KNOWN and len(block) < 256:
                self._known[block] = fields
        return fields

    def _headers(self, call: Call, fields: Fields, *, ends: bool) -> None:
        if not call.answered:
            if not ends and fields[:1] and fields[0][0] == b":status" and fields[0][1].startswith(b"1"):
                return  # an interim answer
            wrong = of_http(fields)
            if wrong is not None:
                self.end(call, *wrong)
                return
            call.answered = True
        if ends:
            status, details = of_trailers(fields)
            if status is Status.OK and not call.complete:
                status, details = Status.INTERNAL, "the call ended within a message"
            self._finish(call, status, details)

    def _configure(self, flags: int, payload: bytes) -> None:
        if flags & _ACK:
            return
        if len(payload) % _SETTING.size:
            raise ProtocolError("settings that are cut off")
        for name, value in _SETTING.iter_unpack(payload):
            if name in _BOUNDS and value not in _BOUNDS[name]:
                raise ProtocolError(f"setting {name} is {value}")
            if name == _INITIAL_WINDOW:
                for call in self._calls.values():
                    call.window += value - self._call_window
                self._call_window = value
            elif name == _FRAME_SIZE:
                self._frame_size = value
            elif name == _MAX_CALLS:
                self._most = value
        self._reply(_frame(_SETTINGS, _ACK, 0))
        if not self.ready.done():
            self.ready.set_result(None)
        self._send_starved()

    def _go_away(self, payload: bytes) -> None:
        if len(payload) < 8:
            raise ProtocolError("a farewell that is cut off")
        last, code = _U32.unpack_from(payload)[0] & _LAST_NUMBER, _U32.unpack_from(payload, 4)[0]
        self.closing = True
        why = f"the server goes away (HTTP/2's code {code}) {payload[8:200].decode('ascii', 'replace')}".rstrip()
        for call in [call for number, call in self._calls.items() if number > last]:
            self._finish(call, Status.UNAVAILABLE, why)
        self._close_if_done()

    def _widen(self, number: int, more: int) -> None:
        if not number:
            self._window += more
            self._send_starved()
        else:
            call = self._calls.get(number)
            if call is not None:
                call.window += more
                if call.pending:
                    self._write(self._sendable(call))

    def _send_starved(self) -> None:
        for call in list(self._starved.values()):
            self._write(self._sendable(call))

    def _sendable(self, call: Call) -> bytes:
        """Return what the windows allow of a call's message now, as frames."""
        frames, pending = [], call.pending
        while pending:
            size = min(len(pending), self._frame_size, self._window, call.window)
            if size <= 0:
                break
            self._window -= size
            call.window -= size
            ends = size == len(pending)
            frames.append(_frame(_DATA, _END_STREAM if ends else 0, call.number, pending[:size]))
            pending = pending[size:]
        call.pending = pending
        if pending:
            self._starved[call.number] = call
        else:
            self._starved.pop(call.number, None)
        return b"".join(frames)

    def _take(self, call: Call | None, length: int) -> None:
        """Count received bytes and send window updates in time."""
        self._taken += length
        if self._taken > WINDOW // 2:
            self._write(_frame(_WINDOW, 0, 0, _U32.pack(self._taken)))
            self._taken = 0
        if call is not None:
            call.taken += length
            if call.taken > WINDOW // 2 and call.open:
                self._write(_frame(_WINDOW, 0, call.number, _U32.pack(call.taken)))
                call.taken = 0

    def _finish(self, call: Call, status: Status, details: str) -> None:
        unsent = bool(call.pending)
        self._forget(call)
        if unsent:
            self._write(_frame(_RESET, 0, call.number, _U32.pack(_CANCEL)))
        self._end_handler(call, status, details)
        self._close_if_done()

    def _end_handler(self, call: Call, status: Status, details: str) -> None:
        try:
            call.handler.ended(status, details)
        except Exception:
            log.exception("the end of a call cannot be handled")

    def _forget(self, call: Call) -> None:
        call.open = False
        self._calls.pop(call.number, None)
        self._starved.pop(call.number, None)

    def _close_if_done(self) -> None:
        if self.closing and not self._calls:
            self.close()

    def _over(self, why: str, error: Exception | None = None) -> None:
        self.closing = True
        if self._timer is not None:
            self._timer.cancel()
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionError(why))
            self.ready.exception()  # mark as retrieved: there may be no waiter
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            call.open = False
            self._end_handler(call, Status.UNAVAILABLE, why)
        transport, self._transport = self._transport, None
        if transport is not None:
            # Not `close`: with it a peer could make TLS wait for its close_notify.
            transport.abort()
        if not self.lost.done():
            self.lost.set_result(None)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._quiet = self._quiet + 1 if self._calls else 0
        if self._quiet > QUIET_TICKS + 1:
            self._over("no answer to a ping")
        elif self._quiet > QUIET_TICKS:
            self._write(_frame(_PING, 0, 0, bytes(_PING_BYTES)))

    def _reply(self, data: bytes) -> None:
        """Send a reply that the peer demands. Raises ProtocolError if it keeps demanding and reads none of them."""
        if self._transport is not None and self._transport.get_write_buffer_size() > MAX_UNREAD:
            raise ProtocolError("questions whose answers are not read")
        self._write(data)

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)


def _guess(data: bytes) -> str:
    """Guess what protocol a peer speaks that sends no HTTP/2 frame."""
    if data.startswith(b"HTTP/"):
        return "HTTP/1"
    return "TLS; its address would be grpcs://" if data.startswith(b"\x15\x03") else "a frame that is too large"


def _number(payload: bytes) -> int:
    if len(payload) != _U32.size:
        raise ProtocolError("a frame of the wrong size")
    value: int = _U32.unpack(payload)[0]
    return value
