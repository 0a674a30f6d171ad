"""A client that goes away frees its place in the engine, wherever its request was."""

import socket
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.e2e.observer import Observer
from tests.e2e.raw import Stream, begun, connect, endless, request_bytes
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up

#: An answer takes 30,000 engine steps, a minute; of one that nobody waits for the engine is to run no more than these.
#: A machine that is busy stands still for less.
MOST_STEPS = 10_000
#: The promise, from the closing of the socket to the engine's report that it is free.
BOUND_SECONDS = 0.2
TIMES = 5
Leave = Callable[[], object]


def stream_to_leave(stack: Stack, observer: Observer, n: int = 1) -> Leave:
    stream = begun(stack, n=n)
    observer.wait(lambda load: load.running == n and load.kv_blocks_used >= n, "every sequence runs")
    return stream.close


def streams_to_leave(stack: Stack, observer: Observer) -> Leave:
    return stream_to_leave(stack, observer, n=4)


def stream_to_reset(stack: Stack, observer: Observer) -> Leave:
    stream = begun(stack)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return stream.close


def answer_to_leave(stack: Stack, observer: Observer) -> Leave:
    """A request whose answer is not streamed."""
    connection = connect(stack)
    connection.sendall(request_bytes(stack, orjson.dumps(endless(stream=False))))
    observer.wait(lambda load: load.running == 1, "the request runs")
    return connection.close


def answer_to_half_close(stack: Stack, observer: Observer) -> Leave:
    """Either reading is sound (answer it, or take it as gone), but the engine must not be left running."""
    connection = connect(stack)
    connection.sendall(request_bytes(stack, orjson.dumps(endless(stream=False))))
    observer.wait(lambda load: load.running == 1, "the request runs")

    def leave() -> None:
        with connection:
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(65536) == b""

    return leave


def stop_string_to_come(stack: Stack, observer: Observer) -> Leave:
    """A stop string that the gateway finds, while the engine would go on."""
    stream = Stream(stack, endless(stop=" "))
    assert stream.begin() == 200

    def read() -> None:
        assert stream.rest()[-1] == b"[DONE]"
        stream.close()

    return read


WAYS = pytest.mark.parametrize(
    "begin",
    [stream_to_leave, streams_to_leave, stream_to_reset, answer_to_leave, answer_to_half_close, stop_string_to_come],
    ids=lambda begin: begin.__name__,
)


@WAYS
def test_the_engine_is_free_long_before_the_answer_would_end(
    stack: Stack, observer: Observer, begin: Callable[[Stack, Observer], Leave]
) -> None:
    for _ in range(TIMES):
        leave = begin(stack, observer)
        before = observer.load().steps
        leave()
        observer.wait_idle()
        assert observer.load().steps - before < MOST_STEPS


@pytest.mark.drill
@WAYS
def test_the_engine_is_free_within_200_ms(
    stack: Stack, observer: Observer, begin: Callable[[Stack, Observer], Leave]
) -> None:
    """By the median of several: a machine that stands still for a moment makes one of them longer."""
    seconds: list[float] = []
    while len(seconds) < TIMES:
        leave = begin(stack, observer)
        began = time.monotonic()
        leave()
        observer.wait_idle()
        seconds.append(time.monotonic() - began)
    assert statistics.median(seconds) < BOUND_SECONDS


@pytest.mark.parametrize("stream", [True, False])
def test_while_it_waits_for_its_turn(stack: Stack, observer: Observer, stream: bool) -> None:
    """Behind a request that reserves the whole cache the next ones wait; one that leaves never reaches the engine."""
    eventually(lambda: up(stack), "the admin API is up")
    sequences = min(128, observer.load().kv_blocks_total * 32 // 30_000)
    # Not streamed: nobody reads it, and a stream that nobody reads is ended.
    with connect(stack) as blocker:
        blocker.sendall(request_bytes(stack, orjson.dumps(endless(stream=False, n=sequences))))
        observer.wait(lambda load: load.running == sequences, "the first request runs")
        queued(stack, observer, endless(stream=stream)).close()
        # Else it would be given the room that the other leaves.
        eventually(lambda: waiting(stack) == 0, "it is gone")
        stays(observer, sequences, seconds=0.1)
    observer.wait_idle()
    stays(observer, 0, seconds=0.3)


def queued(stack: Stack, observer: Observer, body: dict[str, Any]) -> socket.socket:
    """The connection of a request that waits in the gateway.

    A worker that has not heard yet how full the engine is lets one wait there; that one leaves, and another is sent.
    """
    while True:
        connection = connect(stack)
        connection.sendall(request_bytes(stack, orjson.dumps(body)))
        eventually(lambda: waiting(stack) == 1 or observer.load().waiting == 1, "it waits")
        if not observer.load().waiting:
            return connection
        connection.close()
        observer.wait(lambda load: load.waiting == 0, "it has left the engine's queue")


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


def test_many_that_leave_at_once(stack: Stack, observer: Observer) -> None:
    streams = [begun(stack) for _ in range(40)]
    stays = begun(stack)
    for stream in streams:
        stream.close()
    observer.wait(lambda load: load.running == 1, "only one stream is left")
    stays.until_token()
    stays.close()
    observer.wait_idle()
