"""A task in one worker: its requests, their results, and how these are handed in."""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.jobs.batches.batch_records import Counted
from gateway.jobs.batches.jobs import Claim, Jobs
from gateway.jobs.batches.lines import model_of, read_line, requests_of
from gateway.jobs.batches.reply import Reply
from gateway.jobs.batches.results import ERRORS, OUTPUT, WHOLE, answered, done_of
from gateway.jobs.files.content import Contents
from gateway.jobs.files.content_keys import work_name
from protos.errors import PenstockError

log = logging.getLogger(__name__)

#: Seconds between attempts to hand in results.
RETRY_SECONDS: Final = 1.0
#: Attempts of a request that is not refused for lack of room, and seconds between attempts.
MOST_TRIES: Final = 3
FIRST_WAIT, LONGEST_WAIT = 0.25, 30.0


class Waiting(msgspec.Struct, order=True):
    """An unanswered request, ordered by the time of its next attempt, then by its place in the task."""

    after: float
    position: int
    custom_id: str
    model: str
    body: bytes
    tries: int = 0
    refusals: int = 0


class _Handed(msgspec.Struct):
    """Results being handed in; `done` is the task's progress with them."""

    part: str
    output: list[bytes]
    errors: list[bytes]
    counted: Counted
    done: str


class TaskRun:
    """`stuck` while results cannot be handed in; `lost` once another worker has the task; `stopped` by `stop`."""

    def __init__(self, claim: Claim, raw: bytes, jobs: Jobs, contents: Contents) -> None:
        """`raw` are the task's lines as they are in the input."""
        self.claim = claim
        self.lost = False
        self.stuck = False
        self.stopped = False
        self._jobs = jobs
        self._contents = contents
        self._done = done_of(claim.done)
        requests = requests_of(raw)
        self._all = (1 << len(requests)) - 1
        self._ready = deque(self._unanswered(requests))
        self._later: list[Waiting] = []
        self.running: set[asyncio.Task[None]] = set()
        self._output: list[bytes] = []
        self._errors: list[bytes] = []
        self._counted = Counted()
        self._handed: _Handed | None = None
        self._parts = 0
        self._admission = asyncio.Lock()

    @property
    def ready(self) -> int:
        """Requests that could begin now."""
        return len(self._ready)

    @property
    def over(self) -> bool:
        """Whether everything has been answered."""
        return self._done == self._all

    @property
    def has_results(self) -> bool:
        """Whether there are results to hand in."""
        return bool(self._output or self._errors)

    def peek(self, now: float) -> Waiting | None:
        """Return the next request that may begin."""
        if self._later and self._later[0].after <= now:
            return self._later[0]
        return self._ready[0] if self._ready else None

    def take(self, now: float) -> Waiting:
        """Take the request that `peek` has returned."""
        if self._later and self._later[0].after <= now:
            return heapq.heappop(self._later)
        return self._ready.popleft()

    def put_back(self, waiting: Waiting, reply: Reply, now: float, wait: float) -> None:
        """Schedule another attempt of a request, after so many seconds at least."""
        if reply.no_room:
            waiting.refusals += 1
        else:
            waiting.tries += 1
        pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(10, waiting.refusals + waiting.tries - 1))
        waiting.after = now + max(pause, wait)
        heapq.heappush(self._later, waiting)

    def answer(self, waiting: Waiting, reply: Reply) -> None:
        """Add the answer of a request, or its error."""
        line = answered(waiting.custom_id, reply.status, reply.request_id, reply.body)
        counted, record = self._counted, reply.record
        if reply.good:
            self._output.append(line)
            counted.completed += 1
            counted.input_tokens += record.prompt_tokens
            counted.cached_tokens += record.cached_tokens
            counted.output_tokens += record.completion_tokens
            counted.reasoning_tokens += record.reasoning_tokens
        else:
            self._errors.append(line)
            counted.failed += 1
        self._done |= 1 << waiting.position

    def stop(self) -> None:
        """Begin no further request, and end those that run."""
        self.stopped = True
        self._ready.clear()
        self._later.clear()
        for task in list(self.running):
            task.cancel()

    async def hand_in(self, then: str, *, retry: bool = True) -> None:
        """Store and commit the results; `then` is what becomes of the lease: `keep`, `free` or `over`.

        Attempts are repeated until one succeeds; without `retry` there is one. It may be cancelled.
        """
        async with self._admission:
            if self._handed is not None:
                # The commit may have been made: under the same name it counts once.
                await self._settle(self._handed, "keep", retry=retry)
            if self._handed is None and not self.lost:
                self._handed = self._gathered()
                await self._settle(self._handed, then, retry=retry)

    def _gathered(self) -> _Handed:
        part = ""
        if self.has_results:
            self._parts += 1
            part = f"{self.claim.what}.{self.claim.token}.{self._parts:06d}"
        done = WHOLE if self.over else f"{self._done:x}"
        handed = _Handed(part, self._output, self._errors, self._counted, done)
        self._output, self._errors, self._counted = [], [], Counted()
        return handed

    async def _settle(self, handed: _Handed, then: str, *, retry: bool) -> None:
        while not self.lost:
            try:
                await self._put(handed.part + OUTPUT, handed.output)
                await self._put(handed.part + ERRORS, handed.errors)
                self.lost = not await self._jobs.commit(self.claim, handed.part, handed.done, then, handed.counted)
                self._handed = None
                break
            except PenstockError as error:
                if not self.stuck:
                    log.warning("results of %s wait: %s", self.claim.job.id, error.message)
                self.stuck = True
                if not retry:
                    return
                await asyncio.sleep(RETRY_SECONDS)
        self.stuck = False

    def name(self, part: str) -> str:
        """Make the content name of a part of the results."""
        return work_name(self.claim.job.tenant, self.claim.job.id, part)

    async def _put(self, part: str, lines: Sequence[bytes]) -> None:
        if lines:
            await self._contents.put(self.name(part), b"".join(lines))

    def _unanswered(self, requests: Sequence[bytes]) -> list[Waiting]:
        found = []
        for position, raw in enumerate(requests):
            if not self._done >> position & 1:
                line = read_line(raw)
                found.append(Waiting(0.0, position, line.custom_id, model_of(line), bytes(line.body)))
        return found
