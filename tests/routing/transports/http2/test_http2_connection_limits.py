"""A connection at its limits: numbers that run out, and peers that send or ask without end."""

from struct import pack

import pytest

from routing.transports.http2 import http2_connection as connection
from routing.transports.http2.grpc_status import Status
from routing.transports.http2.http2_connection import MAX_BLOCK, Full
from tests.routing.transports.http2.test_http2_connection import (
    ANSWER,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    OK,
    PING,
    RESET,
    SETTINGS,
    WINDOW_UPDATE,
    Side,
    answer,
    block,
    frame,
    message,
    run,
)


@pytest.mark.parametrize("question", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS)])
def test_a_peer_that_asks_on_and_reads_no_answer_is_left(question: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNREAD", 1000)

    def test() -> None:
        side = Side()
        _, heard = side.call()
        side.hear(question * 1000)
        ((status, said),) = heard.ends
        assert (status, side.pipe.closed) == (Status.UNAVAILABLE, True)
        assert "not read" in said
        assert len(side.pipe.written) < 2000

    run(test)


def test_header_fields_without_end_are_not_gathered() -> None:
    def test() -> None:
        side = Side()
        _, heard = side.call()
        side.hear(frame(HEADERS, 0, 1, ANSWER), *[frame(CONTINUATION, 0, 1, bytes(16_000))] * 5)
        ((status, said),) = heard.ends
        assert (status, side.pipe.closed) == (Status.UNAVAILABLE, True)
        assert "too large" in said
        assert MAX_BLOCK < 16_000 * 5

    run(test)


def test_the_last_number_of_a_connection_is_used_and_then_it_ends_with_its_calls() -> None:
    def test() -> None:
        side = Side()
        side.connection._next = 2**31 - 1
        call, heard = side.call()
        assert (call.number, side.connection.closing) == (2**31 - 1, True)
        with pytest.raises(ConnectionError):
            side.call()
        side.hear(answer(call.number, b"x"))
        assert heard.ends == [(Status.OK, "")]
        assert side.pipe.closed
        side.connection.connection_lost(None)

    run(test)


def test_a_peer_may_take_no_calls_for_a_while_and_fewer_than_there_are() -> None:
    def test() -> None:
        side = Side()
        heard = [side.call()[1] for _ in range(3)]
        side.hear(frame(SETTINGS, 0, 0, pack(">HI", 3, 1)))
        side.hear(answer(1, b"x"), answer(3, b"x"))
        with pytest.raises(Full):
            side.call()
        side.hear(frame(SETTINGS, 0, 0, pack(">HI", 3, 0)), answer(5, b"x"))
        with pytest.raises(Full):
            side.call()
        assert [each.ends for each in heard] == [[(Status.OK, "")]] * 3
        side.hear(frame(SETTINGS, 0, 0, pack(">HI", 3, 1)))
        assert side.call()[0].number == 7
        side.done()

    run(test)


def test_hundreds_of_calls_end_with_their_connection_once_each() -> None:
    def test() -> None:
        side = Side()
        heard = [side.call()[1] for _ in range(500)]
        side.hear(*[frame(RESET, 0, number, pack(">I", 8)) for number in range(1, 401, 2)] * 2)
        assert [len(each.ends) for each in heard] == [1] * 200 + [0] * 300
        side.hear(frame(GOAWAY, 0, 0, pack(">II", 2**31 - 1, 0)), frame(GOAWAY, 0, 0, pack(">II", 599, 0)))
        assert [len(each.ends) for each in heard] == [1] * 200 + [0] * 100 + [1] * 200
        side.connection.connection_lost(ConnectionResetError("reset"))
        side.connection.connection_lost(None)
        assert [len(each.ends) for each in heard] == [1] * 500
        assert not side.connection._calls

    run(test)


def test_what_comes_for_a_call_that_is_over_counts_for_the_connection_alone() -> None:
    def test() -> None:
        side = Side()
        call, heard = side.call()
        call.cancel()
        taken = side.connection._taken
        late = message(b"late")
        side.hear(frame(DATA, 0, 1, late), frame(DATA, END_STREAM, 1), frame(RESET, 0, 1, pack(">I", 0)))
        side.hear(frame(WINDOW_UPDATE, 0, 1, pack(">I", 5)), frame(HEADERS, END_HEADERS | END_STREAM, 1, OK))
        assert side.connection._taken == taken + len(late)
        assert not heard.messages
        assert side.call()[0].open
        side.done()

    run(test)


def test_empty_frames_are_nothing() -> None:
    def test() -> None:
        side = Side()
        call, heard = side.call()
        side.hear(frame(HEADERS, END_HEADERS, 1, ANSWER), *[frame(DATA, 0, 1)] * 1000)
        assert (call.open, heard.messages, call.complete) == (True, [], True)
        side.hear(frame(DATA, 0, 1, message(b"x") * 3), frame(HEADERS, END_HEADERS | END_STREAM, 1, OK))
        assert (heard.messages, heard.ends) == ([b"x"] * 3, [(Status.OK, "")])
        side.done()

    run(test)


def test_an_answer_of_trailers_alone() -> None:
    def test() -> None:
        side = Side()
        _, heard = side.call()
        fields = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"14")]
        side.hear(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*fields)))
        assert heard.ends == [(Status.UNAVAILABLE, "")]
        side.done()

    run(test)
