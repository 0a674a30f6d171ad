"""One worker's session with a replica: its open streams, its outbox and its flow control."""

import asyncio
import time
from collections import deque
from typing import Final

from protos import codec
from protos.types import Load, ReplicaInfo, Work
from replicas.kv_events import KvFeed
from replicas.outbox import Outbox

#: News kept for a worker that does not read; each says all that the ones before it have said.
MOST_NEWS: Final = 16


class Session:
    """The `Consumer` of a worker's submits. At most `window` steps are unacknowledged; further ones merge."""

    def __init__(self, hello: codec.Hello, kv: KvFeed | None, window: int, info: ReplicaInfo) -> None:
        """`info` is what the worker was told of the replica."""
        self.worker = hello.worker
        self.watches = hello.watches
        self.protocol = hello.protocol_version
        self.info = info
        self.kv = kv
        self.handles: dict[int, int] = {}  # first stream id of a submit -> engine handle
        self.streams: set[int] = set()  # open stream ids, of all sequences
        self.outbox = Outbox(kv)
        self.submitted = 0  # sequences so far
        self.sent = 0
        self.acked = 0
        self.last_write = time.monotonic()
        self.writer: asyncio.Task[None] | None = None
        self._window = window
        self._open = window  # 0 while there are news, so that the wait for steps is where they are looked at
        self._steps = 0  # the engine's count of steps in the last load sent
        self._closing = False
        self.ended_for = ""
        self._news: deque[bytes] = deque(maxlen=MOST_NEWS)
        self._wake = asyncio.Event()

    def report(self, load: Load, work: Work | None) -> None:
        """Send the engine's load, which includes everything submitted so far, with the next message.

        `work` is the engine's last step's and is included unless it was sent before.
        """
        self.outbox.load = load
        self.outbox.work = work if load.steps != self._steps else None
        self.outbox.submits_seen = self.submitted
        self._wake.set()

    def closed(self, stream_id: int) -> None:
        self.streams.discard(stream_id)

    def request_ended(self, first_stream: int) -> None:
        self.handles.pop(first_stream, None)

    def close_when_empty(self, why: str = "") -> None:
        """Let the writer end once all is sent: nothing more comes, or the session has to be ended for a reason."""
        self._closing, self.ended_for = True, why
        self._wake.set()

    def notify(self) -> None:
        """Wake the writer: there may be something to send."""
        self._wake.set()

    def announce(self, message: bytes) -> None:
        """Send a message of its own before any further step."""
        self._news.append(message)
        self._open = 0
        self._wake.set()

    def acknowledge(self, seq: int) -> None:
        """Note that the worker has handled all steps up to `seq`."""
        if seq > self.acked:
            self.acked = seq
            self._wake.set()

    async def next_message(self) -> bytes | None:
        """Return the next message to write, once there are news, or a step and room for it; None: it has ended."""
        while not self.outbox or self.sent - self.acked >= self._open:
            if self._news:
                return self._news.popleft()
            if self._open != self._window:
                self._open = self._window
                continue
            if self._closing and not self.outbox:
                return None
            self._wake.clear()
            await self._wake.wait()
        step = self.outbox.take(time.time_ns() // 1000)
        if step.load is not None:
            self._steps = step.load.steps
        self.sent = step.seq
        self.last_write = time.monotonic()
        return codec.encode_step(step)
