"""A connection against a peer by hand: every frame is the test's own."""

import asyncio
import re
from struct import pack, unpack_from
from typing import Any, cast

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.protocol_error import ProtocolError
from routing.transports.http2.grpc_call import Call
from routing.transports.http2.grpc_status import Fields, Status
from routing.transports.http2.http2_connection import QUIET_TICKS, WINDOW, Connection, Full
from tests.loops import bounded

DATA, HEADERS, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED, PRIORITY = 0x1, 0x4, 0x8, 0x20


def block(*fields: tuple[bytes, bytes]) -> bytes:
    """Header fields as a peer writes them that was told to keep no table."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields)


def fields_of(*blocks: bytes) -> list[Fields]:
    """What a peer reads that offers a table of the usual size."""
    decoder = hpack.Decoder()
    return [tuple(decoder.decode(each, raw=True)) for each in blocks]


ANSWER = block((b":status", b"200"), (b"content-type", b"application/grpc"))
OK = block((b"grpc-status", b"0"))


def frame(kind: int, flags: int = 0, number: int = 0, payload: bytes = b"") -> bytes:
    return pack(">I", len(payload))[1:] + bytes((kind, flags)) + pack(">I", number) + payload


def message(payload: bytes) -> bytes:
    return b"\0" + pack(">I", len(payload)) + payload


def answer(number: int, *payloads: bytes, trailers: bytes = OK) -> bytes:
    data = b"".join(frame(DATA, 0, number, message(payload)) for payload in payloads)
    return (
        frame(HEADERS, END_HEADERS, number, ANSWER) + data + frame(HEADERS, END_HEADERS | END_STREAM, number, trailers)
    )


class Pipe(asyncio.WriteTransport):
    """What the connection writes, taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        """(kind, flags, number, payload) of all frames since the last call."""
        data, self.written = bytes(self.written).removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), bytearray()
        frames, at = [], 0
        while at < len(data):
            (length,) = unpack_from(">I", b"\0" + data[at : at + 3])
            (number,) = unpack_from(">I", data, at + 5)
            frames.append((data[at + 3], data[at + 4], number, data[at + 9 : at + 9 + length]))
            at += 9 + length
        return frames


class Heard:
    """A call's handler."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.ends: list[tuple[Status, str]] = []

    def received(self, message: bytes) -> None:
        self.messages.append(message)

    def ended(self, status: Status, details: str) -> None:
        self.ends.append((status, details))


class Side:
    """A connection whose peer has said its settings, and what went out since."""

    def __init__(self, largest: int = 1000, settings: bytes = b"") -> None:
        self.pipe = Pipe()
        self.connection = Connection("host:1", "http", largest)
        self.connection.connection_made(self.pipe)
        self.connection.data_received(frame(SETTINGS, 0, 0, settings))
        self.pipe.frames()

    def call(self, payload: bytes = b"ask") -> tuple[Call, Heard]:
        heard = Heard()
        return self.connection.start("/s/M", payload, heard), heard

    def hear(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))

    def done(self) -> None:
        self.connection.close()


def run(test: Any) -> None:
    async def main() -> None:
        test()

    bounded(main)


def test_a_call_and_its_answer() -> None:
    def test() -> None:
        side = Side()
        call, heard = side.call()
        headers, data = side.pipe.frames()
        assert headers[:3] == (HEADERS, END_HEADERS, 1)
        (said,) = fields_of(headers[3])
        fields = dict(said)
        assert (fields[b":path"], fields[b":authority"], fields[b":method"]) == (b"/s/M", b"host:1", b"POST")
        assert data == (DATA, END_STREAM, 1, message(b"ask"))
        side.hear(answer(1, b"one", b"", b"three"))
        assert heard.messages == [b"one", b"", b"three"]
        assert heard.ends == [(Status.OK, "")]
        assert not call.open
        assert side.call()[0].number == 3
        side.done()

    run(test)


@given(
    st.lists(st.binary(max_size=300), max_size=6),
    st.lists(st.integers(1, 200), max_size=8),
    st.lists(st.integers(1, 60), min_size=1, max_size=10),
)
async def test_however_the_bytes_are_cut_the_messages_are_the_same(
    payloads: list[bytes], frames: list[int], reads: list[int]
) -> None:
    side = Side()
    _, heard = side.call()
    body, parts = b"".join(message(payload) for payload in payloads), []
    for size in (*frames, len(body)):
        parts.append(frame(DATA, 0, 1, body[:size]))
        body = body[size:]
    wire = frame(HEADERS, END_HEADERS, 1, ANSWER) + b"".join(parts)
    wire += frame(HEADERS, END_HEADERS | END_STREAM, 1, OK)
    at = 0
    while at < len(wire):
        size = reads[at % len(reads)]
        side.hear(wire[at : at + size])
        at += size
    assert heard.messages == payloads
    assert heard.ends == [(Status.OK, "")]
    side.done()


def test_padding_priorities_and_blocks_in_several_frames() -> None:
    def test() -> None:
        side = Side()
        _, heard = side.call()
        side.hear(
            frame(HEADERS, PADDED | PRIORITY, 1, b"\3" + bytes(5) + ANSWER[:4] + bytes(3)),
            frame(CONTINUATION, 0, 1, ANSWER[4:9]),
            frame(CONTINUATION, END_HEADERS, 1, ANSWER[9:]),
            frame(DATA, PADDED, 1, b"\2" + message(b"x") + bytes(2)),
            frame(99, 0xFF, 1, b"of a later version"),
            frame(HEADERS, END_STREAM, 1, OK[:3]),
            frame(CONTINUATION, END_HEADERS, 1, OK[3:]),
        )
        assert heard.messages == [b"x"]
        assert heard.ends == [(Status.OK, "")]
        side.done()

    run(test)


def test_a_long_message_waits_for_room() -> None:
    def test() -> None:
        side = Side()
        body = bytes(range(256)) * 400  # 102,400 bytes, over the first windows of 65,535
        side.call(body)
        sent = [f for f in side.pipe.frames() if f[0] == DATA]
        assert sum(len(f[3]) for f in sent) == 65_535
        assert not any(f[1] & END_STREAM for f in sent)
        side.hear(frame(WINDOW_UPDATE, 0, 1, pack(">I", 1_000_000)))
        assert not side.pipe.frames()  # the connection's own window is still full
        side.hear(frame(WINDOW_UPDATE, 0, 0, pack(">I", 10_000)))
        sent += side.pipe.frames()
        side.hear(frame(SETTINGS, 0, 0, pack(">HI", 5, 30_000)))
        side.hear(frame(WINDOW_UPDATE, 0, 0, pack(">I", 1_000_000)))
        sent += [f for f in side.pipe.frames() if f[0] == DATA]
        assert b"".join(f[3] for f in sent) == message(body)
        assert [bool(f[1] & END_STREAM) for f in sent] == [False] * (len(sent) - 1) + [True]
        assert len(sent[-1][3]) > 16_384
        side.done()

    run(test)


def test_a_smaller_window_is_kept_to() -> None:
    def test() -> None:
        side = Side(settings=pack(">HI", 4, 10))
        _, heard = side.call(bytes(20))
        assert len(side.pipe.frames()[-1][3]) == 10
        side.hear(frame(SETTINGS, 0, 0, pack(">HI", 4, 12)))
        assert [f[3] for f in side.pipe.frames() if f[0] == DATA] == [bytes(2)]
        side.hear(answer(1))  # the peer has heard enough
        assert heard.ends == [(Status.OK, "")]
        assert side.pipe.frames() == [(RESET, 0, 1, pack(">I", 8))]
        side.done()

    run(test)


def test_what_was_taken_is_said_before_the_peer_stops() -> None:
    def test() -> None:
        side = Side(largest=16_000)
        call, _ = side.call()
        side.hear(frame(HEADERS, END_HEADERS, 1, ANSWER))
        side.pipe.frames()
        call.taken = side.connection._taken = WINDOW // 2 - 10
        side.hear(frame(DATA, 0, 1, message(bytes(100))))
        assert [(f[0], f[2]) for f in side.pipe.frames()] == [(WINDOW_UPDATE, 0), (WINDOW_UPDATE, 1)]
        side.done()

    run(test)


def test_cancelling_resets_the_call_and_its_handler_hears_nothing_more() -> None:
    def test() -> None:
        side = Side()
        call, heard = side.call()
        side.pipe.frames()
        call.cancel()
        call.cancel()
        assert side.pipe.frames() == [(RESET, 0, 1, pack(">I", 8))]
        side.hear(answer(1, b"late"))
        assert not heard.messages
        assert not heard.ends
        side.done()

    run(test)


@pytest.mark.parametrize(
    ("frames", "status", "details"),
    [
        (frame(RESET, 0, 1, pack(">I", 7)), Status.UNAVAILABLE, "HTTP/2's code 7"),
        (frame(RESET, 0, 1, pack(">I", 2)), Status.INTERNAL, "HTTP/2's code 2"),
        (answer(1, trailers=block((b"grpc-status", b"3"), (b"grpc-message", b"a%20b"))), 3, "a b"),
        (answer(1, trailers=block((b"x", b"y"))), Status.UNKNOWN, "without a status"),
        (answer(1, trailers=block((b"grpc-status", b"99"))), Status.UNKNOWN, "without a status"),
        (answer(1, trailers=block((b"grpc-status", b"9" * 9000))), Status.UNKNOWN, "without a status"),
        (
            frame(HEADERS, END_HEADERS | END_STREAM, 1, block((b":status", b"103"))),
            Status.UNKNOWN,
            "answer of HTTP, 103",
        ),
        (frame(HEADERS, END_HEADERS, 1, ANSWER) + frame(DATA, END_STREAM, 1), Status.UNKNOWN, "without a status"),
        (frame(HEADERS, END_HEADERS, 1, ANSWER) + frame(DATA, 0, 1, b"\1" + bytes(4)), Status.INTERNAL, "compressed"),
        (
            frame(HEADERS, END_HEADERS, 1, ANSWER) + frame(DATA, 0, 1, b"\0" + pack(">I", 1001)),
            Status.RESOURCE_EXHAUSTED,
            r"larger than max \(1001 vs. 1000\)",
        ),
        (
            frame(HEADERS, END_HEADERS, 1, ANSWER)
            + frame(DATA, 0, 1, message(b"half")[:-1])
            + frame(HEADERS, END_HEADERS | END_STREAM, 1, OK),
            Status.INTERNAL,
            "within a message",
        ),
        (
            frame(HEADERS, END_HEADERS, 1, block((b":status", b"404"), (b"content-type", b"text/html"))),
            Status.UNIMPLEMENTED,
            "404 text/html",
        ),
        (
            frame(HEADERS, END_HEADERS, 1, block((b":status", b"200"), (b"content-type", b"text/html"))),
            Status.UNKNOWN,
            "200 text/html",
        ),
        (frame(GOAWAY, 0, 0, pack(">II", 0, 0) + b"bye"), Status.UNAVAILABLE, "goes away .* bye"),
    ],
)
def test_how_calls_end(frames: bytes, status: int, details: str) -> None:
    def test() -> None:
        side = Side()
        _, heard = side.call()
        side.hear(frames)
        ((ended, said),) = heard.ends
        assert ended == status
        assert re.search(details, said), said
        side.done()
        assert len(heard.ends) == 1

    run(test)


def test_a_server_that_goes_away_answers_what_it_has_taken() -> None:
    def test() -> None:
        side = Side()
        (_, first), (_, second) = side.call(), side.call()
        side.hear(frame(GOAWAY, 0, 0, pack(">II", 1, 0)))
        assert [status for status, _ in second.ends] == [Status.UNAVAILABLE]
        with pytest.raises(ConnectionError):
            side.call()
        before = side.pipe.closed
        side.hear(answer(1, b"x"))
        assert (before, side.pipe.closed) == (False, True)
        assert (first.messages, first.ends) == ([b"x"], [(Status.OK, "")])
        side.connection.connection_lost(None)

    run(test)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP/1"),
        (b"\x15\x03\x03\x00\x02\x02\x46\x00\x00\x00", "TLS; its address would be grpcs://"),
        (b"\xff" * 20, "too large"),
        (frame(PING), "does not begin with settings"),
        (frame(SETTINGS) + frame(PUSH, 0, 1, bytes(4)), "a push"),
        (frame(SETTINGS) + frame(CONTINUATION, 0, 1), "within a header block"),
        (frame(SETTINGS) + frame(HEADERS, 0, 1) + frame(DATA, 0, 1), "within a header block"),
        (frame(SETTINGS) + frame(DATA, PADDED, 1, b"\5abc"), "more padding"),
        (frame(SETTINGS) + frame(SETTINGS, 0, 0, b"abc"), "settings that are cut off"),
        (frame(SETTINGS, 0, 0, pack(">HI", 4, 1 << 31)), "setting 4 is 2147483648"),
        (frame(SETTINGS) + frame(SETTINGS, 0, 0, pack(">HI", 5, 1 << 24)), "setting 5 is 16777216"),
        (frame(SETTINGS) + frame(SETTINGS, 0, 0, pack(">HI", 5, 100)), "setting 5 is 100"),
        (frame(SETTINGS) + frame(PING, 0, 0, b"abc"), "ping of the wrong size"),
        (frame(SETTINGS) + frame(GOAWAY, 0, 0, b"abc"), "farewell"),
        (frame(SETTINGS) + frame(WINDOW_UPDATE, 0, 0, b"abc"), "wrong size"),
    ],
)
async def test_what_is_not_the_protocol_ends_the_connection(data: bytes, problem: str) -> None:
    pipe = Pipe()
    connection = Connection("host:1", "http", 1000)
    connection.connection_made(pipe)
    heard = Heard()
    connection.start("/s/M", b"", heard)
    connection.data_received(data)
    ((status, said),) = heard.ends
    assert status is Status.UNAVAILABLE
    assert problem in said
    assert pipe.closed
    assert connection.lost.done()
    if not data.startswith(frame(SETTINGS)):
        with pytest.raises(ProtocolError, match=problem):
            await connection.ready


@given(st.binary(max_size=200))
async def test_no_bytes_make_it_raise(data: bytes) -> None:
    side = Side()
    side.call()
    side.hear(data)
    side.done()


def test_a_handler_that_fails_takes_no_other_call_with_it_but_the_connection() -> None:
    class Broken(Heard):
        def received(self, message: bytes) -> None:
            raise KeyError(message)

    def test() -> None:
        side = Side()
        _, other = side.call()
        side.connection.start("/s/M", b"", Broken())
        side.hear(answer(3, b"x"))
        assert [status for status, _ in other.ends] == [Status.UNAVAILABLE]
        assert side.pipe.closed

    run(test)


def test_pings_are_answered_and_a_silent_peer_is_asked_and_given_up() -> None:
    def test() -> None:
        side = Side()
        side.hear(frame(PING, 0, 0, b"12345678"))
        assert side.pipe.frames() == [(PING, 1, 0, b"12345678")]
        for _ in range(20):
            side.connection._tick()
        assert not side.pipe.frames()  # nobody waits for anything
        _, heard = side.call()
        side.pipe.frames()
        for _ in range(QUIET_TICKS + 1):
            side.connection._tick()
        assert side.pipe.frames() == [(PING, 0, 0, bytes(8))]
        side.hear(frame(PING, 1, 0, bytes(8)))
        for _ in range(QUIET_TICKS + 1):
            side.connection._tick()
        assert not heard.ends
        side.connection._tick()
        assert heard.ends == [(Status.UNAVAILABLE, "no answer to a ping")]
        assert side.pipe.closed
        cast(Any, side.connection._timer).cancel()

    run(test)


def test_no_more_calls_at_a_time_than_the_peer_takes() -> None:
    def test() -> None:
        side = Side(settings=pack(">HI", 3, 1))
        call, _ = side.call()
        with pytest.raises(Full, match="the peer takes 1 calls at a time"):
            side.call()
        call.cancel()
        side.call()
        side.done()

    run(test)
