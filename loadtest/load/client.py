"""A load client: a fixed number of connections, each sending a request when its last one has ended, or when one is due.

It runs in its own process (`python -m loadtest.load.client`, a `LoadSpec` as JSON on stdin), which can be pinned to
another core than the gateway's, and prints JSON lines: progress, then one result. The measurement window lies in full
load: after the ramp and the warm-up, and before the first connection runs out of work.
"""

import asyncio
import contextlib
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
import uvloop

from loadtest.load.http1 import MalformedResponse, ResponseReader
from loadtest.load.processes import core_seconds, cpu_seconds

_PROGRESS_SECONDS: Final = 0.2
_RECONNECT_SECONDS: Final = 0.05


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A load. `bodies` are sent in turn; the CPU time of `watch` and `watch_cores` is read over the window.

    In each request the text `stamp` is replaced by the request's number, so that no two share a prefix beyond it.

    Connections start evenly over `ramp_seconds`: with fixed-length answers, clients that start together would stay
    in step. With a `rate` the load is open: requests are due evenly, so many a second, and their latency counts from
    when they are due, even if no connection is free then. The window opens after the ramp and `warmup` answers, and
    closes with its `requests`-th answer.
    """

    bodies: list[bytes]
    stamp: str = ""
    concurrency: int
    requests: int
    rate: float = 0.0
    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/v1/chat/completions"
    headers: dict[str, str] = {}
    warmup: int = 0
    ramp_seconds: float = 0.0
    stall_seconds: float = 60.0
    watch: list[int] = []
    watch_cores: list[int] = []


class LoadResult(msgspec.Struct, kw_only=True):
    """The measurements of the window; latencies are in ms, one value per successful request.

    `most_open` is the largest number of requests that were sent and not yet answered.
    `engine_ms` and `queue_ms` are the engine's own, from the gateway's headers on answers that are not streamed.
    """

    seconds: float = 0.0
    requests: int = 0
    errors: dict[str, int] = {}
    statuses: dict[int, int] = {}
    events: int = 0
    output_tokens: int = 0
    answer_events: int = 0
    ttft_ms: list[float] = []
    e2e_ms: list[float] = []
    most_open: int = 0
    gap_ms: list[float] = []
    engine_ms: list[float] = []
    queue_ms: list[float] = []
    cpu_seconds: dict[int, float] = {}
    core_seconds: dict[int, float] = {}
    client_cpu_seconds: float = 0.0

    @property
    def streamed_tokens(self) -> float:
        """Tokens that arrived in the window, including those of unfinished answers.

        Events are counted as they arrive, but a stream's token count comes only at its end: the answers that ended in
        the window give the tokens per event.
        """
        return self.events * self.output_tokens / self.answer_events if self.answer_events else 0.0

    @property
    def error_count(self) -> int:
        """Number of failed requests of all kinds."""
        return sum(self.errors.values())


class Progress(msgspec.Struct, frozen=True):
    """Number of requests of the window that have ended."""

    ended: int


class Stalled(RuntimeError):
    """No data arrived for too long."""


class _Connection(asyncio.Protocol):
    """One client of the load, kept over reconnections."""

    def __init__(self, load: "_Load") -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._began = 0.0
        self._first = 0.0
        self._last = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface but not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:  # no request is open
            self.close()
            return
        try:
            events = reader.feed(data)
        except MalformedResponse:
            self._end("malformed")
            return
        if events:
            now = time.monotonic()
            load = self._load
            load.events += events
            if not self._first:
                self._first = now
            elif load.measuring:
                load.gaps.append((now - self._last) * 1e3)
            self._last = now
        if reader.complete:
            self._finish(reader)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        reader = self._reader
        if reader is not None:
            reader.end_of_connection()
            if reader.complete:
                self._finish(reader)
            else:
                self._end("connection reset" if exc else "connection closed")
        elif not self._load.stopping:
            self._load.reconnect(self, 0.0)

    def connection_refused(self) -> None:
        """Count a failed connection as one failed request, so that the run ends."""
        self._reader = ResponseReader()
        self._end("connection refused", pause=_RECONNECT_SECONDS)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _send(self) -> None:
        self._load.when_due(self._send_now)

    def _send_now(self, due: float) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._reader = ResponseReader()
        self._first = 0.0
        self._began = due
        self._transport.write(self._load.next_request())

    def _finish(self, reader: ResponseReader) -> None:
        error = _error_of(reader)
        if error is None:
            self._load.record(reader, self._began, self._first or time.monotonic(), time.monotonic())
        self._end(error)

    def _end(self, error: str | None, pause: float = 0.0) -> None:
        reader, self._reader = self._reader, None
        assert reader is not None
        self._load.open_requests -= error != "connection refused"
        if not self._load.ended(reader.status, error):
            self.close()
        elif self._transport is None:
            self._load.reconnect(self, pause)
        elif reader.keeps_alive and error != "malformed" and not self._transport.is_closing():
            self._send()
        else:
            self._transport.abort()  # `connection_lost` makes the next connection


def _error_of(reader: ResponseReader) -> str | None:
    """Return why a complete response is no successful answer, if so."""
    if reader.status != 200:
        return f"status {reader.status}"
    if reader.failed:
        return "error event"
    if reader.event_stream and not reader.done:
        return "no [DONE]"
    return None


class _Load:
    """The run: distributes requests, counts answers, opens and closes the window."""

    def __init__(self, spec: LoadSpec, progress: Callable[[Progress], None]) -> None:
        self._spec = spec
        self._progress = progress
        self._requests = [_request_bytes(spec, body) for body in spec.bodies]
        self._sent = 0
        self._next_due = 0.0
        self.open_requests = 0
        self._warm = 0
        self._ramped = False
        self._connections: list[_Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._window_began = 0.0
        self._events_before = 0
        self._cpu_before: dict[int, float] = {}
        self._cores_before: dict[int, float] = {}
        self._own_cpu_before = 0.0
        self._errors: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()
        self._columns = {name: array("d") for name in ("ttft_ms", "e2e_ms", "engine_ms", "queue_ms")}
        self.result = LoadResult()
        self.gaps = array("d")
        self.events = 0
        self.measuring = False
        self.stopping = False
        self.over = asyncio.Event()

    async def run(self) -> LoadResult:
        """Run the load until the window closes. Raises Stalled."""
        spec = self._spec
        pause = spec.ramp_seconds / spec.concurrency
        ramp = asyncio.create_task(self._ramp(pause))
        self._tasks.add(ramp)
        last, moved_at = (-1, -1), time.monotonic()
        try:
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PROGRESS_SECONDS):
                        await self.over.wait()
                self._progress(Progress(self.result.requests))
                now, seen = time.monotonic(), (self._sent, self.events)
                if seen != last:
                    last, moved_at = seen, now
                elif now - moved_at > spec.stall_seconds:
                    raise Stalled(f"nothing arrived for {spec.stall_seconds:.0f} s")
        finally:
            self.stopping = True
            for task in self._tasks:
                task.cancel()
            for connection in self._connections:
                connection.close()
        return self.result

    async def _ramp(self, pause: float) -> None:
        for _ in range(self._spec.concurrency):
            connection = _Connection(self)
            self._connections.append(connection)
            self.reconnect(connection, 0.0)
            await asyncio.sleep(pause)
        self._ramped = True
        if self._warm >= self._spec.warmup:
            self._open_window()

    def reconnect(self, connection: _Connection, pause: float) -> None:
        """Connect in a new task, after a pause."""
        task = asyncio.create_task(self._connect(connection, pause))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: _Connection, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, self._spec.host, self._spec.port)
        except OSError:
            connection.connection_refused()

    def when_due(self, send: Callable[[float], None]) -> None:
        """Call `send` with the time at which the next request is due: at once, or at that time."""
        now = time.monotonic()
        if not self._spec.rate:
            send(now)
            return
        due = self._next_due or now
        self._next_due = due + 1 / self._spec.rate
        # uvloop's clock is not time.monotonic().
        asyncio.get_running_loop().call_later(max(0.0, due - now), send, due)

    def next_request(self) -> bytes:
        """Return the bytes of the next request."""
        self._sent += 1
        self.open_requests += 1
        if self.measuring:
            self.result.most_open = max(self.result.most_open, self.open_requests)
        request = self._requests[self._sent % len(self._requests)]
        stamp = self._spec.stamp.encode()
        return request.replace(stamp, b"%0*d" % (len(stamp), self._sent)) if stamp else request

    def record(self, reader: ResponseReader, began: float, first: float, ended: float) -> None:
        """Record a successful answer, if the window is open."""
        if not self.measuring:
            return
        columns, result = self._columns, self.result
        columns["ttft_ms"].append((first - began) * 1e3)
        columns["e2e_ms"].append((ended - began) * 1e3)
        result.output_tokens += reader.output_tokens or 0
        result.answer_events += reader.events
        if not reader.event_stream:
            for column, name in (("engine_ms", b"x-penstock-engine-ms"), ("queue_ms", b"x-penstock-queue-ms")):
                value = reader.header(name)
                if value:
                    columns[column].append(float(value))

    def ended(self, status: int, error: str | None) -> bool:
        """Count a request that has ended; return whether its connection should send another."""
        if not self.measuring:
            self._warm += 1
            if self._ramped and not self.stopping and self._warm >= self._spec.warmup:
                self._open_window()
            return not self.stopping
        self.result.requests += 1
        if status:
            self._statuses[status] += 1
        if error is not None:
            self._errors[error] += 1
        if self.result.requests >= self._spec.requests:
            self._close_window()
        return not self.stopping

    def _open_window(self) -> None:
        self._window_began = time.monotonic()
        self._events_before = self.events
        self._cpu_before = {pid: cpu_seconds(pid) for pid in self._spec.watch}
        self._cores_before = {core: core_seconds(core) for core in self._spec.watch_cores}
        self._own_cpu_before = time.process_time()
        self.measuring = True

    def _close_window(self) -> None:
        result = self.result
        self.measuring = False
        self.stopping = True
        result.seconds = time.monotonic() - self._window_began
        result.cpu_seconds = {pid: cpu_seconds(pid) - before for pid, before in self._cpu_before.items()}
        result.core_seconds = {core: core_seconds(core) - before for core, before in self._cores_before.items()}
        result.client_cpu_seconds = time.process_time() - self._own_cpu_before
        result.events = self.events - self._events_before
        result.errors, result.statuses = dict(self._errors), dict(self._statuses)
        result.gap_ms = [round(value, 3) for value in self.gaps]
        for name, values in self._columns.items():
            setattr(result, name, [round(value, 3) for value in values])
        self.over.set()


def _request_bytes(spec: LoadSpec, body: bytes) -> bytes:
    headers = {
        "host": f"{spec.host}:{spec.port}",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **spec.headers,
    }
    lines = [f"POST {spec.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def run_load(spec: LoadSpec, progress: Callable[[Progress], None] = lambda _: None) -> LoadResult:
    """Run a load on the current event loop. Raises Stalled, and OSError if a watched process is gone."""
    return await _Load(spec, progress).run()


def main() -> int:
    """Read a specification, run it, and print progress and the result as JSON lines."""
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadSpec)
    # Not sys.stdout: with PYTHONUNBUFFERED it may write only a part of a long line.
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:

        def emit(kind: str, value: Any) -> None:
            out.write(msgspec.json.encode({kind: value}) + b"\n")
            out.flush()

        try:
            result = uvloop.run(run_load(spec, lambda progress: emit("progress", progress)))
        except (Stalled, OSError) as error:
            emit("failure", str(error))
            return 1
        emit("result", result)
        return 0


if __name__ == "__main__":
    sys.exit(main())
