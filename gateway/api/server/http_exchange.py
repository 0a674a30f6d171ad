"""The HTTP exchange of every endpoint: one request and its answer over ASGI.

Pure ASGI on purpose: a Starlette Request and Response each cost as much as the rest of a short request together.
"""

import asyncio
import contextlib
import math
import os
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from gateway.api.server.compression import unpacked
from gateway.api.server.discard_body import discard_body
from gateway.api.server.error_form import OPENAI_ERRORS, ErrorForm
from gateway.api.server.trace_headers import TRACE_PARENT, begin_trace
from gateway.tenancy.tenants.caller import Caller
from observability.outcome import outcome_of
from observability.record import FAILED, RequestRecord, Verdict
from observability.tracing.sampling import HeadSampler
from protos.errors import (
    BodyTooLarge,
    ClientGone,
    DeadlineExceeded,
    FilterFailed,
    InvalidRequest,
    PenstockError,
    RequestTimeout,
    StoreUnavailable,
)
from routing.dispatch.dispatch import RequestHandle

#: Seconds for a client to deliver its body after the headers.
BODY_SECONDS = 30.0
#: A body taken in parts gets one more second for each so many bytes.
SLOWEST_BYTES = 32 * 1024
STUCK_SECONDS = 30.0
MAX_LENGTH_DIGITS = 18
#: The endpoint name of requests for unknown paths.
OTHER: Final = "other"
JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"
#: A request id that a client may choose: it fits into a log line and cannot be another header's value.
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._~:/+=@-]{1,128}")
#: The header by which either side ends a connection after this answer (RFC 9112, 9.6).
CLOSE: Final = (b"connection", b"close")
_STREAM_HEADERS: Final = (
    (b"content-type", EVENT_STREAM),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_COMMENT: Final = b": keep-alive\n\n"
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")

_Headers = list[tuple[bytes, bytes]]

#: Request headers that few requests have, but those of traces.
_RARE: Final = frozenset(
    (
        b"x-api-key",
        b"x-request-timeout",
        b"x-stainless-read-timeout",
        b"x-penstock-explain",
        b"content-encoding",
        b"x-request-id",
        b"x-penstock-background",
    )
)
#: Seeded by the system; request ids must be unique, not secret. A system call for each would cost more than all of it.
_random = random.Random()
_random_bits = _random.getrandbits
os.register_at_fork(after_in_child=_random.seed)


class HttpExchange:
    """Reads the request, then answers exactly once: with `respond`, or with `start_stream`, `write` and `end`."""

    # Defaults of what most requests never set: they cost a request nothing.
    #: The task that runs the request, once it reads the body or has a limit: its time limits cancel it.
    _task: asyncio.Task[Any] | None = None
    _watcher: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _body_deadline: float | None = None
    #: What a stream has written since the last look, and since when it is quiet; None where there is no stream.
    _last = b""
    _quiet_since: float | None = None
    _comment: asyncio.Future[None] | None = None
    #: When the request must end, on the monotonic clock; None before it generates.
    deadline: float | None = None
    #: The caller, where it is known without a key.
    caller: Caller | None = None
    #: Whether the gateway itself made the request, and reads its record.
    internal = False
    errors: ErrorForm = OPENAI_ERRORS
    started = False
    #: Makes the headers that depend on the caller when the answer goes out.
    caller_headers: Callable[[], _Headers] = list
    #: Headers that depend on the replica that answers.
    answer_headers: Sequence[tuple[bytes, bytes]] = ()
    request_timeout: bytes | None = None
    read_timeout: bytes | None = None
    explain: bytes | None = None
    #: Whether it shall stand behind all other requests.
    background = False
    content_encoding: bytes | None = None
    content_length: int | None = None
    #: Whether reading the body has stopped before its end.
    _cut_short = False

    def __init__(self, scope: Scope, receive: Receive, send: Send, sampler: HeadSampler, endpoint: str = OTHER) -> None:
        """`endpoint` is the request's name in metrics and in the journal."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self.handle = RequestHandle()
        self.method: str = scope["method"]
        self.request_id = request_id = f"req_{_random_bits(96):024x}"
        #: The request's record, published once it has ended.
        self.record = record = RequestRecord(request_id, endpoint, time.monotonic(), time.time())
        client = scope.get("client")
        if client is not None:
            record.client = client[0]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._headers = headers
        self.authorization = headers.get(b"authorization")
        if b"content-length" in headers:
            self.content_length = _length_of(headers[b"content-length"])
        own_id = None
        if not _RARE.isdisjoint(headers):
            own_id = self._read_rare(headers)
        if sampler.traces or TRACE_PARENT in headers:
            begin_trace(record, sampler, headers, scope["headers"])
        #: Headers of every answer.
        self.fixed_headers: _Headers = [(b"x-request-id", own_id or request_id.encode())]

    def _read_rare(self, headers: dict[bytes, bytes]) -> bytes | None:
        """Read the headers that few requests have; return the request id that the client chose, if it is valid."""
        if self.authorization is None and b"x-api-key" in headers:
            # Anthropic's clients send their key so.
            self.authorization = b"Bearer " + headers[b"x-api-key"]
        self.request_timeout = headers.get(b"x-request-timeout")
        self.read_timeout = headers.get(b"x-stainless-read-timeout")
        self.explain = headers.get(b"x-penstock-explain")
        self.background = headers.get(b"x-penstock-background") == b"true"
        self.content_encoding = headers.get(b"content-encoding")
        own_id = headers.get(b"x-request-id")
        if own_id is None or not _REQUEST_ID.fullmatch(own_id):
            return None
        self.record.client_request_id = own_id.decode()
        return own_id

    @property
    def path(self) -> str:
        """The request's path, without the query."""
        path: str = self._scope["path"]
        return path

    @property
    def path_params(self) -> Mapping[str, str]:
        """The path's parameters by name."""
        return self._scope.get("path_params") or {}

    @property
    def query(self) -> dict[str, str]:
        """The query parameters; of a repeated one the last."""
        sent: bytes = self._scope.get("query_string", b"")
        return dict(parse_qsl(sent.decode("latin-1"), keep_blank_values=True))

    def header(self, name: bytes) -> bytes | None:
        """Return a header's value, by its name in lower case."""
        return self._headers.get(name)

    async def parts(self, limit: int) -> AsyncIterator[bytes]:
        """Read the body part by part. Raises BodyTooLarge, RequestTimeout or InvalidRequest.

        The client must send at a minimal pace; time that the reader spends between parts does not count.
        """
        if self.content_encoding not in (None, b"identity"):
            raise InvalidRequest("A body that is taken in parts cannot be compressed.")
        if self.content_length is not None and self.content_length > limit:
            raise BodyTooLarge(f"The request body is {self.content_length} bytes long; the limit is {limit}.")
        self._task = asyncio.current_task()
        # Whoever takes the parts may stop at any of them.
        self._cut_short = True
        size, left = 0, BODY_SECONDS
        while True:
            began = time.monotonic()
            self._body_deadline = began + left
            try:
                message = await self._receive()
            except asyncio.CancelledError:
                if self._task is None or time.monotonic() < began + left or self._task.uncancel() > 0:
                    raise
                raise RequestTimeout("The request body does not arrive fast enough.") from None
            finally:
                self._body_deadline = None
            if message["type"] == "http.disconnect":
                self._cut_short = False
                raise InvalidRequest("The request body is malformed or ended early.")
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            self._cut_short = size != self.content_length and bool(message.get("more_body", False))
            if size > limit:
                raise BodyTooLarge(f"The request body is longer than the limit of {limit} bytes.")
            left = min(BODY_SECONDS, left - (time.monotonic() - began) + len(chunk) / SLOWEST_BYTES)
            yield chunk
            if not self._cut_short:
                return

    async def body(self, limit: int) -> bytes:
        """Read and decompress the body. Raises BodyTooLarge, RequestTimeout, UnsupportedEncoding, InvalidRequest."""
        length = self.content_length
        if length is not None and length > limit:
            raise BodyTooLarge(f"The request body is {length} bytes long; the limit is {limit}.")
        self._task = asyncio.current_task()
        self._body_deadline = time.monotonic() + BODY_SECONDS
        try:
            message = await self._receive()
            body: bytes = message.get("body", b"")
            # A server may send the end as a message of its own, which takes one more round through its loop.
            if not body or len(body) != length:
                body = await self._all_parts(message, limit)
        except asyncio.CancelledError:
            # `enforce_limits` cancels with the deadline in the past; any other cancellation must go on.
            if self._task is None or time.monotonic() < self._body_deadline or self._task.uncancel() > 0:
                raise
            self._cut_short = True
            raise RequestTimeout(f"The request body did not arrive within {BODY_SECONDS:.0f} seconds.") from None
        finally:
            self._body_deadline = None
        return body if self.content_encoding is None else await unpacked(body, self.content_encoding, limit)

    async def _all_parts(self, message: Message, limit: int) -> bytes:
        """Join the body's parts, of which `message` is the first."""
        chunks: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                # A server also reports chunks so that do not parse; that client is still there to read this.
                raise InvalidRequest("The request body is malformed or ended early.")
            chunk: bytes = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                self._cut_short = bool(message.get("more_body", False))
                raise BodyTooLarge(f"The request body is longer than the limit of {limit} bytes.")
            if size == self.content_length or not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            message = await self._receive()

    async def discard_rest(self) -> None:
        """Read the rest of the body after the answer, so that a client that still writes gets the answer."""
        # HTTP/2 ends a stream without its connection. A client that waits for leave to write its body does not get it.
        if self._scope.get("http_version") == "2" or b"expect" in self._headers:
            return
        if self._cut_short if self._task is not None else self._has_body():
            await discard_body(self._receive, self.content_length or 0)

    def _has_body(self) -> bool:
        return bool(self.content_length) or b"transfer-encoding" in self._headers

    def limit(self, deadline: float) -> None:
        """End this task's request, whose body is not read, at a monotonic time, also if its client reads nothing."""
        self._task, self._cut_short = asyncio.current_task(), self._has_body()
        self.deadline = deadline

    def watch(self) -> bool:
        """Fail the handle as soon as the client is gone, from now on. False while the body is still to come."""
        if self.deadline is None:
            return False
        self._watcher = asyncio.get_running_loop().create_task(self._watch())
        return True

    def unwatch(self) -> None:
        """Stop watching. Idempotent."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def enforce_limits(self, now: float) -> None:
        """End the request if it is past its time at the monotonic `now`; called about once a second.

        A failed request that does not end waits in `write` for a client that reads nothing; it is cancelled
        STUCK_SECONDS later, without sending its error.
        """
        if self._body_deadline is not None:
            if now > self._body_deadline and self._task is not None:
                self._task.cancel()
        elif self.deadline is not None and now > self.deadline:
            if self.handle.failed:
                if self._task is not None:
                    self._task.cancel()
            else:
                # A new exception each time: raised repeatedly, one would hold on to every raiser's frames.
                self.handle.fail(DeadlineExceeded("The request took longer than its time limit."))
                self.deadline = now + STUCK_SECONDS
        elif self.deadline is not None and self.handle.failed:
            self.deadline = min(self.deadline, now + STUCK_SECONDS)

    def keep_alive(self, now: float, seconds: float) -> None:
        """Send a comment on a stream that is quiet for `seconds`; called about once a second.

        A stream that waits for its model's first replica begins with its first comment.
        """
        if self._quiet_since is None:
            if self.handle.waits_at_zero and self.record.stream and not self.started:
                self._quiet_since = now
        elif not self.started and not self.handle.waits_at_zero:
            self._quiet_since = None  # it has its replica, and its status is still open
        elif self._last:
            # Upstreams may send parts of an event; no comment may go into one.
            self._quiet_since = now if self._last.endswith(_EVENT_ENDS) else math.inf
            self._last = b""
        elif now - self._quiet_since >= seconds and (self._comment is None or self._comment.done()):
            self._quiet_since = now
            self._comment = asyncio.ensure_future(self._send_comment())

    async def _send_comment(self) -> None:
        # Meanwhile the stream may have ended, its client may be gone, or part of an event may be out.
        if self._takes_comments():
            with contextlib.suppress(Exception):
                if not self.started:
                    if not self.handle.waits_at_zero:
                        return
                    await self._start_early()
                    if not self._takes_comments():
                        return
                await self._send({"type": "http.response.body", "body": _COMMENT, "more_body": True})

    def _takes_comments(self) -> bool:
        return self._quiet_since is not None and not self._last

    def schedule_check(self, seconds: float) -> None:
        """Schedule one more look when the client's own time limit is over, ahead of the next round."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds + 0.001, lambda: self.enforce_limits(time.monotonic()))

    def cancel_check(self) -> None:
        """Cancel what `schedule_check` scheduled. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def respond(
        self, status: int, body: bytes, *, media_type: bytes = JSON, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Answer in one piece."""
        self.started = True
        answer_headers = [
            (b"content-type", media_type),
            (b"content-length", b"%d" % len(body)),
            *self.fixed_headers,
            *self.caller_headers(),
            *self.answer_headers,
            *headers,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": answer_headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def start_stream(self) -> None:
        """Begin an event stream; from here on a failure can only be an event."""
        await self._start([*_STREAM_HEADERS])
        self._quiet_since = time.monotonic()

    async def _start_early(self) -> None:
        """Begin the event stream before anything is known of its answer; whoever has the answer begins it again."""
        whole = self._send

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._send = whole
            else:
                await whole(message)

        # Before the first send, during which the answer may come.
        self._send = send
        self.started = True
        headers = [*_STREAM_HEADERS, *self.fixed_headers, *self.caller_headers(), *self.answer_headers]
        await whole({"type": "http.response.start", "status": 200, "headers": headers})

    async def start_body(self, length: int | None, media_type: bytes = JSON) -> None:
        """Begin a body that comes in parts, of `length` bytes if that is known."""
        headers = [(b"content-type", media_type)]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        await self._start(headers)

    async def _start(self, headers: _Headers) -> None:
        self.started = True
        headers += self.fixed_headers
        headers += self.caller_headers()
        headers += self.answer_headers
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    def close_connection(self) -> None:
        """End the connection with the answer, if that has not begun. HTTP/2 has no header for this."""
        if self._scope.get("http_version") != "2":
            self.fixed_headers.append(CLOSE)

    def wrap_send(self, wrap: Callable[[Send], Send]) -> None:
        """Send what is still to be sent of the answer through what `wrap` makes of the way to the server."""
        self._send = wrap(self._send)

    def write(self, body: bytes) -> Awaitable[None]:
        """Send a part of the stream; wait while the client's connection is full.

        Returns ASGI's own awaitable, to save a coroutine for every token.
        """
        self._last = body
        return self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, body: bytes = b"") -> None:
        """Send the last part of the stream."""
        self._quiet_since = None
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def note_failure(self, error: PenstockError) -> None:
        """Record the error that the request ended with, and the details of a server error, which clients do not get."""
        record = self.record
        record.outcome = outcome_of(error, background=record.background)
        record.status, record.code = error.status, error.code or ""
        if error.status >= 500:
            # Only the store's causes are known to contain nothing of the request.
            stored = error.__cause__ if isinstance(error, StoreUnavailable) else None
            record.detail = error.detail or str(stored or error.message)
        if isinstance(error, FilterFailed):
            where = "answer" if record.first_token else "prompt"
            record.verdicts.append(Verdict(error.filter, FAILED, where, "", 1))

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.handle.fail(ClientGone("The client closed the connection."))


@lru_cache(maxsize=4096)
def _length_of(value: bytes) -> int | None:
    """Parse a Content-Length; None if it is invalid."""
    if not value.isdigit():
        return None
    # No body has so many bytes, and int() refuses very long numbers.
    return int(value) if len(value) < MAX_LENGTH_DIGITS else 10**MAX_LENGTH_DIGITS
