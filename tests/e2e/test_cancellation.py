"""A client that goes away frees its place in the engine within 200 ms, wherever its request was.

The median of several says so: a machine that stands still for a moment makes one of them longer.
"""

import socket
import statistics
import struct
import time
from collections.abc import Callable

import orjson
import pytest

from tests.e2e.observer import Observer
from tests.e2e.raw import Stream, begun, connect, endless, request_bytes
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up

#: The promise, from the closing of the socket to the engine's report that it is free.
BOUND_SECONDS = 0.2
TIMES = 5


def median_of(attempt: Callable[[], float]) -> float:
    return statistics.median(attempt() for _ in range(TIMES))


def close_and_time(observer: Observer, connection: socket.socket | Stream) -> float:
    started = time.monotonic()
    connection.close()
    observer.wait_idle()
    return time.monotonic() - started


@pytest.mark.parametrize("n", [1, 4])
def test_a_stream_that_has_begun(stack: Stack, observer: Observer, n: int) -> None:
    def attempt() -> float:
        stream = begun(stack, n=n)
        observer.wait(lambda load: load.running == n and load.kv_blocks_used >= n, "every sequence runs")
        return close_and_time(observer, stream)

    assert median_of(attempt) < BOUND_SECONDS


def test_a_stream_that_is_reset(stack: Stack, observer: Observer) -> None:
    def attempt() -> float:
        stream = begun(stack)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return close_and_time(observer, stream)

    assert median_of(attempt) < BOUND_SECONDS


def test_an_answer_that_is_not_streamed(stack: Stack, observer: Observer) -> None:
    def attempt() -> float:
        connection = connect(stack)
        connection.sendall(request_bytes(stack, orjson.dumps(endless(stream=False))))
        observer.wait(lambda load: load.running == 1, "the request runs")
        return close_and_time(observer, connection)

    assert median_of(attempt) < BOUND_SECONDS


@pytest.mark.parametrize("stream", [True, False])
def test_while_it_waits_for_its_turn(stack: Stack, observer: Observer, stream: bool) -> None:
    """Behind a request that reserves the whole cache the next ones wait; one that leaves never reaches the engine."""
    eventually(lambda: up(stack), "the admin API is up")
    sequences = min(128, observer.load().kv_blocks_total * 32 // 30_000)
    # Not streamed: nobody reads it, and a stream that nobody reads is ended.
    blocker, connection = connect(stack), connect(stack)
    try:
        blocker.sendall(request_bytes(stack, orjson.dumps(endless(stream=False, n=sequences))))
        observer.wait(lambda load: load.running == sequences, "the first request runs")
        before = observer.load()
        # Until every worker has heard of it: a replica tells a quiet one five times a second.
        stays(observer, before.running, seconds=0.5)
        connection.sendall(request_bytes(stack, orjson.dumps(endless(stream=stream))))
        eventually(lambda: waiting(stack) == 1, "it waits")
        connection.close()
        # Else it would be given the room that the other leaves.
        eventually(lambda: waiting(stack) == 0, "it is gone")
        stays(observer, before.running, seconds=0.1)
    finally:
        connection.close()
        blocker.close()
    observer.wait_idle()
    stays(observer, 0, seconds=0.3)


def waiting(stack: Stack) -> float:
    """Requests that wait for their turn, as the workers have last told."""
    page = admin(stack, "GET", "/metrics")[2].decode()
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith("penstock_queue_depth{"))


def stays(observer: Observer, running: int, *, seconds: float) -> None:
    """The engine has no more and no less to do for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        load = observer.load()
        assert (load.running, load.waiting) == (running, 0)


def test_a_stop_string_frees_the_engine(stack: Stack, observer: Observer) -> None:
    def attempt() -> float:
        stream = Stream(stack, endless(stop=" "))
        try:
            assert stream.begin() == 200
            assert stream.rest()[-1] == b"[DONE]"
            return observer.wait_idle()
        finally:
            stream.close()

    assert median_of(attempt) < BOUND_SECONDS


def test_many_that_leave_at_once(stack: Stack, observer: Observer) -> None:
    streams = [begun(stack) for _ in range(40)]
    stays = begun(stack)
    for stream in streams:
        stream.close()
    observer.wait(lambda load: load.running == 1, "only one stream is left")
    stays.until_token()
    stays.close()
    observer.wait_idle()


def test_a_client_that_closes_only_its_sending_side(stack: Stack, observer: Observer) -> None:
    """Either reading is sound (answer it, or take it as gone), but the engine must not be left running."""

    def attempt() -> float:
        with connect(stack) as connection:
            connection.sendall(request_bytes(stack, orjson.dumps(endless(stream=False))))
            observer.wait(lambda load: load.running == 1, "the request runs")
            connection.shutdown(socket.SHUT_WR)
            started = time.monotonic()
            assert connection.recv(65536) == b""
            observer.wait_idle()
            return time.monotonic() - started

    assert median_of(attempt) < BOUND_SECONDS
