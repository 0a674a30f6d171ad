"""Granian's supervisor of worker processes, with a crash loop told by time and a stop that loses no request."""

import contextlib
import os
import queue
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from granian.server.mp import MPServer

from gateway.server.worker_signals import BEGIN_DRAIN, END_STREAMS, STOP_ACCEPTING

#: If a worker is restarted this often within WORKER_RESTARTS_SECONDS, the gateway ends instead.
MAX_WORKER_RESTARTS = 5
WORKER_RESTARTS_SECONDS = 60.0
#: Seconds between two rounds of telling the workers: a worker may have been started in between.
_ROUND_SECONDS = 0.2
#: Seconds for what was accepted last to be read.
_LAST_SECONDS = 0.3


class Restarts(dict[int, float]):
    """Granian's record of worker restarts, by which it recognizes a crash loop.

    By default Granian gives up as soon as a worker dies within 5.5 s of its restart; this record shows it a restart
    only when there have been MAX_WORKER_RESTARTS within WORKER_RESTARTS_SECONDS.
    """

    def __init__(self) -> None:
        super().__init__()
        self._times: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_WORKER_RESTARTS))

    def __setitem__(self, worker: int, time_: float) -> None:
        times = self._times[worker]
        times.append(time_)
        if len(times) == MAX_WORKER_RESTARTS and time_ - times[0] < WORKER_RESTARTS_SECONDS:
            super().__setitem__(worker, time_)

    def clear(self) -> None:
        """Keep the record: Granian clears it before each restart, but restarts count here by time."""


class WorkerServer(MPServer):
    """Runs the workers until a signal; `stop_in_order` in a thread of its own then ends them.

    A worker that Granian tells to end closes its listening socket and its idle connections at once, so that requests
    on their way are lost. Hence it is told only after a grace, in which load balancers notice and clients leave.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """`arguments` and `settings` are Granian's."""
        super().__init__(*arguments, **settings)
        self.respawned_wrks = Restarts()
        # Its `put` may interrupt itself, as in a signal's handler.
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._hangups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def signal_handler_interrupt(self, *_: object) -> None:
        """Begin the stop; a second signal ends the grace."""
        self._signals.put(None)

    def signal_handler_reload(self, *_: object) -> None:
        """Note a SIGHUP. Granian would restart the workers, which loses requests and reads no configuration."""
        self._hangups.put(None)

    def answer_hangups(self, answer: Callable[[], None]) -> None:
        """Call `answer` at each SIGHUP, for ever."""
        while True:
            self._hangups.get()
            answer()

    def stop_in_order(self, grace_seconds: float, drain_seconds: float) -> None:
        """Wait for a signal; let the workers drain, end them, and at last have them end their streams."""
        self._signals.get()
        grace_ends = time.monotonic() + grace_seconds
        while (left := grace_ends - time.monotonic()) > 0:
            self._tell(BEGIN_DRAIN)
            if self._told_again(min(_ROUND_SECONDS, left)):
                break
        if grace_seconds > 0:
            self._tell(STOP_ACCEPTING)
            time.sleep(_LAST_SECONDS)
        ends = time.monotonic() + drain_seconds
        while (left := ends - time.monotonic()) > 0:
            # Again and again: after a worker's restart Granian forgets what has happened meanwhile.
            self._end()
            time.sleep(min(_ROUND_SECONDS, left))
        self._end()
        self._tell(END_STREAMS)

    def _end(self) -> None:
        super().signal_handler_interrupt()  # type: ignore[no-untyped-call]

    def _told_again(self, seconds: float) -> bool:
        with contextlib.suppress(queue.Empty):
            self._signals.get(timeout=seconds)
            return True
        return False

    def _tell(self, number: signal.Signals) -> None:
        for worker in list(self.wrks):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.inner.pid, number)
