"""A mock upstream with OpenAI's API at minimal cost, for benchmarks of the gateway in front of it.

usage: python -m loadtest.load.mock_upstream PORT OUTPUT_TOKENS PACE_MS

It checks only whether a request is a stream or a GET, and answers with constants; with PACE_MS 0 the whole answer comes
at once. All streams get their events in one tick, as an engine's sequences do.
"""

import asyncio
import sys
from typing import Final, cast

_EVENT: Final = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"upstream",'
    b'"choices":[{"index":0,"delta":{"content":" water"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n'
)
_END: Final = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"upstream",'
    b'"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}\n\n'
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"upstream",'
    b'"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":%d,"total_tokens":%d}}\n\n'
    b"data: [DONE]\n\n"
)
_WHOLE: Final = (
    b'{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"upstream","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"%b"},"logprobs":null,"finish_reason":"length"}],'
    b'"usage":{"prompt_tokens":40,"completion_tokens":%d,"total_tokens":%d}}'
)
_STREAM: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Answers:
    """The constant answers, and the open streams with their remaining events."""

    def __init__(self, tokens: int, pace_ms: float) -> None:
        self.tokens = tokens
        self.pace = pace_ms / 1e3
        self.event = _chunk(_EVENT)
        self.end = _chunk(_END % (tokens, tokens + 40)) + b"0\r\n\r\n"
        self.whole = _json(_WHOLE % (b" water" * tokens, tokens, tokens + 40))
        self.models = _json(b'{"object":"list","data":[]}')
        self.streams: dict[asyncio.Transport, int] = {}

    async def tick(self) -> None:
        """Send every stream one event per tick, forever."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + self.pace, loop.time() - self.pace)
            await asyncio.sleep(due - loop.time())
            for transport, left in list(self.streams.items()):
                if left:
                    self.streams[transport] = left - 1
                    transport.write(self.event)
                else:
                    del self.streams[transport]
                    transport.write(self.end)


class Connection(asyncio.Protocol):
    """A connection that answers one request after the other; bodies need a content-length."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._transport: asyncio.Transport | None = None
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the connection's stream."""
        if self._transport is not None:
            self._answers.streams.pop(self._transport, None)

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._came += data
        while (end := self._came.find(b"\r\n\r\n")) >= 0:
            head = self._came[:end].lower()
            _, found, rest = head.partition(b"content-length:")
            size = end + 4 + (int(rest.split(b"\r\n", 1)[0]) if found else 0)
            if len(self._came) < size:
                return
            request, self._came = self._came[:size], self._came[size:]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        transport, answers = self._transport, self._answers
        assert transport is not None, "it is open"
        if request.startswith(b"GET"):
            transport.write(answers.models)
        elif b'"stream":true' not in request:
            transport.write(answers.whole)
        elif answers.pace:
            transport.write(_STREAM)
            answers.streams[transport] = answers.tokens
        else:
            transport.write(_STREAM + answers.event * answers.tokens + answers.end)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _json(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def listen(port: int, answers: Answers) -> asyncio.Server:
    """Listen on loopback; port 0 means any."""
    return await asyncio.get_running_loop().create_server(lambda: Connection(answers), "127.0.0.1", port)


async def serve(port: int, tokens: int, pace_ms: float) -> None:
    """Serve until cancelled."""
    answers = Answers(tokens, pace_ms)
    async with await listen(port, answers) as server:
        if pace_ms:
            await answers.tick()
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
