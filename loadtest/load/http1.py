"""An incremental reader of HTTP/1.1 responses that counts server-sent events, for the load client.

It parses what a gateway sends and refuses the rest; it is not a general client. Bytes may arrive in parts of any size.
"""

import re
from typing import Final

_MAX_HEAD: Final = 65_536
_MAX_CHUNK_LINE: Final = 256
_DONE: Final = b"data: [DONE]"
_TOKENS: Final = re.compile(rb'"completion_tokens": ?(\d+)')


class MalformedResponse(Exception):
    """The bytes are not a response that this reader supports."""


class ResponseReader:
    """Reads one response; make a new reader for each request on a connection.

    `events` counts events with data, without the closing `[DONE]`, which sets `done`. `complete`: the body's end has
    come. Events must end with two line feeds, as every OpenAI-compatible server sends them.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_chunked",
        "_last_event",
        "_left",
        "complete",
        "done",
        "event_stream",
        "events",
        "failed",
        "head",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.head = b""
        self.event_stream = False
        self.events = 0
        self.done = False
        self.failed = False
        self.complete = False
        self._buffer = b""
        self._chunked = False
        self._left: int | None = None
        self._body: list[bytes] = []
        self._last_event = b""

    def feed(self, data: bytes) -> int:
        """Parse data; return the number of events that it completed. Raises MalformedResponse."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        before = self.events
        if not self.status:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _MAX_HEAD:
                    raise MalformedResponse("the headers do not end")
                self._buffer = data
                return 0
            self._read_head(data[:end])
            data = data[end + 4 :]
        if self._chunked:
            self._read_chunks(data)
        elif self._left is None:
            self._take(data)
        else:
            if len(data) > self._left:
                raise MalformedResponse("more bytes than content-length announced")
            self._left -= len(data)
            self._take(data)
            self.complete = self._left == 0
        return self.events - before

    def end_of_connection(self) -> None:
        """Note that the peer closed, which ends a body only without a length or chunks."""
        if self.status and not self._chunked and self._left is None:
            self.complete = True

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can be reused."""
        delimited = self._chunked or self._left is not None
        return self.complete and delimited and self.header(b"connection").lower() != b"close"

    @property
    def output_tokens(self) -> int | None:
        """Completion tokens in the answer's `usage`, or None."""
        found = _TOKENS.search(self._last_event if self.event_stream else b"".join(self._body))
        return int(found[1]) if found else None

    def header(self, name: bytes) -> bytes:
        """Return a header's value by its lower-case name; empty where there is none."""
        start = self.head.lower().find(b"\r\n" + name + b":")
        if start < 0:
            return b""
        start += len(name) + 3
        end = self.head.find(b"\r\n", start)
        return self.head[start : end if end >= 0 else len(self.head)].strip()

    def _read_head(self, head: bytes) -> None:
        line = head.split(b"\r\n", 1)[0].split(b" ")
        if len(line) < 2 or line[0] not in (b"HTTP/1.1", b"HTTP/1.0") or len(line[1]) != 3 or not line[1].isdigit():
            raise MalformedResponse("no HTTP/1 status line")
        self.status, self.head = int(line[1]), head
        self.event_stream = self.header(b"content-type").startswith(b"text/event-stream")
        length = self.header(b"content-length")
        if self.header(b"transfer-encoding").lower() == b"chunked":
            self._chunked = True
        elif length:
            if not length.isdigit():
                raise MalformedResponse("content-length is not a number")
            self._left = int(length)

    def _read_chunks(self, data: bytes) -> None:
        """Parse complete chunks; an incomplete one, always small from a gateway, waits for more data."""
        position = 0
        while not self.complete:
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                if len(data) - position > _MAX_CHUNK_LINE:
                    raise MalformedResponse("a chunk's length does not end")
                break
            try:
                length = int(data[position:line_end].split(b";", 1)[0], 16)
            except ValueError:
                raise MalformedResponse("a chunk's length is not a number") from None
            start, end = line_end + 2, line_end + 2 + length
            if length <= 0:
                # The last chunk: a blank line ends it, after any trailers.
                blank = data.find(b"\r\n\r\n", line_end)
                if length < 0:
                    raise MalformedResponse("a chunk's length is negative")
                if blank < 0:
                    break
                self.complete = True
                position = blank + 4
            elif len(data) < end + 2:
                break
            elif data[end : end + 2] != b"\r\n":
                raise MalformedResponse("a chunk is longer than its length")
            else:
                self._take(data[start:end])
                position = end + 2
        self._buffer = data[position:]
        if self.complete and self._buffer:
            raise MalformedResponse("bytes after the end of the body")

    def _take(self, payload: bytes) -> None:
        if not self.event_stream:
            self._body.append(payload)
            return
        # `_body` holds at most the beginning of one event.
        if self._body:
            payload = self._body.pop() + payload
        events = payload.split(b"\n\n")
        rest = events.pop()
        if rest:
            self._body.append(rest)
        for event in events:
            if event == _DONE:
                self.done = True
            elif event.startswith(b"data:"):
                self.events += 1
                self._last_event = event
                # Text cannot match: its quotes are escaped.
                if event.startswith(b'data: {"error"'):
                    self.failed = True
