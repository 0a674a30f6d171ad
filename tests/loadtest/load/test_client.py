import asyncio
import os
import socket
from collections.abc import Callable

import pytest

from loadtest.load.client import LoadResult, LoadSpec, Stalled, run_load

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n'
USAGE = b'data: {"choices":[],"usage":{"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def chunks(*payloads: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in payloads) + b"0\r\n\r\n"


def answer(status: str, body: bytes = b"{}", *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 " + status.encode(), b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


class Server:
    """Answers the k-th request with `script(k)`; an answer of None resets the connection, b"" closes it."""

    def __init__(self, script: Callable[[int], bytes | None]) -> None:
        self._script = script
        self.requests = 0
        self.connections = 0
        self.bodies: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                reply = self._script(self.requests)
                self.requests += 1
                if not reply:
                    if reply is None:
                        writer.transport.abort()
                    return
                writer.write(reply)
                await writer.drain()
                if b"connection: close" in reply:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # asyncio.run cancels what is left; the streams module would log that
        finally:
            writer.close()


def load(script: Callable[[int], bytes | None], *, concurrency: int = 1, **more: object) -> tuple[LoadResult, Server]:
    server = Server(script)

    async def run() -> LoadResult:
        listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        spec = {"bodies": [b"{}"], "requests": 6, "watch": [os.getpid()], "watch_cores": [0], **more}
        try:
            return await run_load(LoadSpec(port=port, concurrency=concurrency, **spec))  # type: ignore[arg-type]
        finally:
            listener.close()
            # Handlers see the closed connections before the loop ends.
            await asyncio.sleep(0.05)

    return asyncio.run(run()), server


def test_a_stamp_is_another_number_in_each_request() -> None:
    answer = STREAM + chunks(TOKEN, USAGE, DONE)
    _, server = load(lambda _: answer, bodies=[b'{"a": "<number>"}'], stamp="<number>")
    assert len(server.bodies) >= 6
    assert len(set(server.bodies)) == len(server.bodies)
    assert {len(body) for body in server.bodies} == {len(b'{"a": "<number>"}')}
    assert not any(b"<number>" in body for body in server.bodies)


def test_streams_are_counted() -> None:
    result, server = load(lambda _: STREAM + chunks(TOKEN, TOKEN, USAGE, DONE), concurrency=2)
    assert result.requests == 6
    assert result.errors == {}
    assert result.statuses == {200: 6}
    assert result.output_tokens == 12
    assert result.answer_events == 18
    assert result.streamed_tokens == pytest.approx(result.events * 12 / 18)
    assert len(result.ttft_ms) == len(result.e2e_ms) == 6
    assert all(0 < first <= whole for first, whole in zip(result.ttft_ms, result.e2e_ms, strict=True))
    assert set(result.cpu_seconds) == {os.getpid()}
    assert set(result.core_seconds) == {0}
    assert server.connections == 2


def test_plain_answers_carry_the_engines_times() -> None:
    body = b'{"usage":{"completion_tokens":3}}'
    headers = (b"x-penstock-engine-ms: 12.5", b"x-penstock-queue-ms: 0.25")
    result, _ = load(lambda _: answer("200 OK", body, *headers))
    assert result.engine_ms == [12.5] * 6
    assert result.queue_ms == [0.25] * 6
    assert result.output_tokens == 18
    assert result.streamed_tokens == 0


def test_the_warm_up_is_not_measured() -> None:
    result, server = load(lambda k: answer("500 No" if k < 4 else "200 OK"), warmup=4)
    assert result.statuses == {200: 6}
    assert server.requests == 10


def test_bodies_are_taken_in_turn() -> None:
    _, server = load(lambda _: answer("200 OK"), bodies=[b"a", b"b"])
    assert sorted(server.bodies) == [b"a"] * 3 + [b"b"] * 3


def test_requests_of_an_open_load_are_sent_when_they_are_due() -> None:
    result, _ = load(lambda _: answer("200 OK"), concurrency=4, rate=200.0, requests=10, warmup=1)
    assert result.errors == {}
    assert len(result.e2e_ms) == 10
    # Ten requests are due over nine intervals; none is sent early.
    assert result.seconds > 8 / 200
    assert 1 <= result.most_open <= 4


def test_latencies_of_an_open_load_count_from_when_requests_are_due() -> None:
    # All are due at once, and one connection sends them one after the other.
    result, _ = load(lambda _: answer("200 OK"), rate=1e6, requests=10)
    assert result.e2e_ms == sorted(result.e2e_ms)
    assert result.e2e_ms[-1] > result.e2e_ms[0]
    assert result.most_open == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (answer("429 Too Many Requests"), "status 429"),
        (answer("503 Service Unavailable", b"{}", b"connection: close"), "status 503"),
        (STREAM + chunks(TOKEN), "no [DONE]"),
        (STREAM + chunks(TOKEN, b'data: {"error":{}}\n\n'), "error event"),
        (STREAM + b"zz\r\n", "malformed"),
        (None, "connection reset"),
        (b"", "connection closed"),
    ],
)
def test_every_failure_is_counted_and_the_load_goes_on(bad: bytes | None, error: str) -> None:
    result, _ = load(lambda k: bad if k % 2 else answer("200 OK"))
    assert result.requests == 6
    # A reset may be seen as a plain end, by the time of its arrival.
    assert result.error_count == 3
    assert set(result.errors) <= ({"connection reset", "connection closed"} if bad is None else {error})
    assert len(result.e2e_ms) == 3


def test_a_refused_connection_is_a_failed_request() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        spec = LoadSpec(bodies=[b"{}"], concurrency=2, requests=3, port=unused.getsockname()[1])
        result = asyncio.run(run_load(spec))
    assert result.errors == {"connection refused": 3}
    assert result.statuses == {}


async def test_a_silent_server_ends_the_run() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        with pytest.raises(Stalled):
            await run_load(LoadSpec(bodies=[b"{}"], concurrency=1, requests=1, port=port, stall_seconds=0.1))
    finally:
        listener.close()
        await asyncio.sleep(0.05)
