"""One worker's session with a replica: its open streams, its outbox and the flow control between them."""

import asyncio
import time

from protos import codec
from protos.types import Load, Work
from replicas.kv_events import KvFeed
from replicas.outbox import Outbox


class Session:
    """The `Consumer` of a worker's submits. At most `window` steps are left unacknowledged; further ones merge."""

    def __init__(self, worker: str, kv: KvFeed | None, window: int) -> None:
        self.worker = worker
        self.kv = kv
        self.handles: dict[int, int] = {}  # first stream id of a submit -> engine handle
        self.streams: set[int] = set()  # open stream ids, of all sequences
        self.outbox = Outbox(kv)
        self.submitted = 0  # sequences
        self.sent = 0
        self.acked = 0
        self.last_write = time.monotonic()
        self.writer: asyncio.Task[None] | None = None
        self._window = window
        self._steps = 0  # that the engine had done when the last load was sent
        self._closing = False
        self._wake = asyncio.Event()

    def report(self, load: Load, work: Work | None) -> None:
        """Send the engine's load with the next message, which knows of everything submitted so far.

        `work` is of the engine's last step, and goes along unless it has been sent before.
        """
        self.outbox.load = load
        self.outbox.work = work if load.steps != self._steps else None
        self.outbox.submits_seen = self.submitted
        self._wake.set()

    def closed(self, stream_id: int) -> None:
        """A sequence takes nothing more."""
        self.streams.discard(stream_id)

    def forgotten(self, first_stream: int) -> None:
        """A request is over."""
        self.handles.pop(first_stream, None)

    def close_when_empty(self) -> None:
        """Nothing more comes: let the writer end once all is sent."""
        self._closing = True
        self._wake.set()

    def notify(self) -> None:
        """There may be something to send."""
        self._wake.set()

    def acknowledge(self, seq: int) -> None:
        """The worker has handled all steps up to this one."""
        if seq > self.acked:
            self.acked = seq
            self._wake.set()

    async def next_message(self) -> bytes | None:
        """The next step to write, once there is something to say and room in the window; None: nothing will come."""
        while not self.outbox or self.sent - self.acked >= self._window:
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
