"""As many streams at once as are asked for, each followed by another one, beside a drill."""

import asyncio
import json
import statistics
import threading
import time
from dataclasses import dataclass, field

from tests.kubernetes.installed import MODEL

_CONNECT_SECONDS = 20.0
#: A stream without a token for so long hangs.
_SILENCE_SECONDS = 60.0


@dataclass
class Streams:
    """`count` clients that ask again and again, on a new connection each time."""

    address: str
    key: str
    count: int
    tokens: int = 60
    model: str = MODEL
    whole: int = 0
    #: What went wrong, with the seconds since the start.
    broken: list[str] = field(default_factory=list)
    #: The longest time without a token of each stream, in seconds; the first token apart.
    gaps: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    _open: int = 0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Streams":
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, seconds: float = 120.0) -> None:
        """Ask no more, and wait for the answers under way."""
        self._stopping.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self._open} streams have not ended"

    @property
    def open(self) -> int:
        """Streams that have a token and have not ended."""
        return self._open

    def figures(self) -> str:
        middle = statistics.median(self.first) if self.first else 0.0
        return (
            f"{self.whole} streams whole, {len(self.broken)} broken; first token {middle:.2f} s in the middle and "
            f"{max(self.first, default=0.0):.2f} s at most; longest pause {max(self.gaps, default=0.0):.2f} s"
        )

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(self.count):
                clients.create_task(self._client(number))

    async def _client(self, number: int) -> None:
        # They do not begin at the same time, lest their ends come at the same time ever after.
        await asyncio.sleep(number / self.count * self.tokens * 0.1)
        asked = 0
        while not self._stopping.is_set():
            asked += 1
            try:
                problem = await self._stream(f"{number} asks {asked}")
            except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
                problem = repr(error)
            if problem:
                self.broken.append(f"{time.monotonic() - self._began:.1f} s: {problem}")
                await asyncio.sleep(1.0)
            else:
                self.whole += 1

    async def _stream(self, words: str) -> str:
        """Ask once; what was wrong with the answer."""
        begun = last = time.monotonic()
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(self.address, 80)
        counted = 0
        longest = 0.0
        try:
            writer.write(self._request(words))
            status = await reader.readline()
            if b" 200 " not in status:
                return f"{status!r} {await reader.read(2000)!r}"
            while True:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    line = await reader.readline()
                if not line:
                    return f"the connection ended after {counted} tokens"
                if not line.startswith(b"data: "):
                    continue
                if line.startswith(b"data: [DONE]"):
                    if counted != self.tokens:
                        return f"{counted} tokens instead of {self.tokens}"
                    self.gaps.append(longest)
                    return ""
                event = json.loads(line[6:])
                if "error" in event:
                    return f"after {counted} tokens: {event['error']}"
                if usage := event.get("usage"):
                    counted = usage["completion_tokens"]
                if any(choice["delta"].get("content") for choice in event["choices"]):
                    now = time.monotonic()
                    if last == begun:
                        self.first.append(now - begun)
                        self._open += 1
                    else:
                        longest = max(longest, now - last)
                    last = now
        finally:
            self._open -= last != begun
            writer.close()

    def _request(self, words: str) -> bytes:
        body = json.dumps(
            {
                "model": self.model,
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": self.tokens,
                "ignore_eos": True,
                "messages": [{"role": "user", "content": words}],
            }
        ).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: penstock\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body
