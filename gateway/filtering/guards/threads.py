"""Threads for foreign code, which may take any time, raise anything, or never return."""

import asyncio
import contextlib
import enum
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from gateway.filtering.guards.verdicts import kind_of
from safety.guard import GuardFailed

_ALL_LOST: Final = "every thread of it hangs in a call that came to no end"

Call = Callable[[str], object]


class GuardThreads:
    """At most `count` threads, which never keep the process alive.

    A call whose caller gave up keeps its thread until it returns. While such calls have all threads, every question
    fails at once; no thread is replaced, since the next call would hang as well. Python runs one thread at a time: code
    that holds the interpreter's lock without end blocks the whole process; only code that computes or waits can be
    given up.
    """

    def __init__(self, call: Call, count: int, name: str) -> None:
        """`call` gets each text, in any of the threads; `name` is the threads' name."""
        self._call = call
        self._count = count
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._lost = 0
        self._waiting: set[_Job] = set()
        self._closed = False

    @property
    def lost(self) -> int:
        """Threads whose call nobody waits for any more."""
        return self._lost

    async def run(self, text: str) -> object:
        """Call the foreign code with the text and return its result. Raises GuardFailed."""
        if self._closed:
            raise GuardFailed("it has been closed")
        if self._lost >= self._count:
            raise GuardFailed(_ALL_LOST)
        if len(self._threads) < self._count:
            self._start_one()
        loop = asyncio.get_running_loop()
        job = _Job(text, loop, loop.create_future())
        self._waiting.add(job)
        self._jobs.put(job)
        try:
            found = await job.answer
        finally:
            self._leave(job)
        if isinstance(found, GuardFailed):
            raise found
        return found

    def close(self) -> None:
        """Let the threads end that can; fail the calls of those who wait."""
        if self._closed:
            return
        self._closed = True
        self._fail_waiting("it has been closed")
        for _ in self._threads:
            self._jobs.put(None)

    def _start_one(self) -> None:
        # A daemon, so that a hanging call does not keep the process alive.
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _leave(self, job: "_Job") -> None:
        """Note that the caller has gone, with its answer or without."""
        self._waiting.discard(job)
        with self._lock:
            if job.state is _State.WAITING:
                job.state = _State.OVER
            elif job.state is _State.RUNNING:
                job.state = _State.LOST
                self._lost += 1
        job.text = ""
        if self._lost >= self._count:
            self._fail_waiting(_ALL_LOST)

    def _fail_waiting(self, problem: str) -> None:
        for job in list(self._waiting):
            job.settle(GuardFailed(problem))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                if job.state is not _State.WAITING:
                    continue
                job.state = _State.RUNNING
                text = job.text
            try:
                found = self._call(text)
            except GuardFailed as error:
                found = GuardFailed(error.problem)
            except BaseException as error:  # SystemExit too: the thread is to live on
                found = GuardFailed(kind_of(error))
            text = ""
            with self._lock:
                if job.state is _State.LOST:
                    self._lost -= 1
                job.state = _State.OVER
            # A closed loop has nobody who waits.
            with contextlib.suppress(RuntimeError):
                job.loop.call_soon_threadsafe(job.settle, found)
            del job, found


class _State(enum.Enum):
    WAITING = enum.auto()
    RUNNING = enum.auto()
    #: Running, and its caller has gone.
    LOST = enum.auto()
    OVER = enum.auto()


class _Job:
    """A text, and the future of the caller that waits for its result."""

    __slots__ = ("answer", "loop", "state", "text")

    def __init__(self, text: str, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[object]") -> None:
        self.text = text
        self.loop = loop
        self.answer = answer
        self.state = _State.WAITING

    def settle(self, found: object) -> None:
        """Set the result, on the event loop; the first one counts."""
        if not self.answer.done():
            self.answer.set_result(found)
