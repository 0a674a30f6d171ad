"""A batch in one worker: its tasks here, and when to claim another one."""

from collections.abc import Sequence
from math import inf
from typing import Final

from gateway.jobs.batches.batch_records import BatchRequest, Task
from gateway.jobs.batches.jobs import JobName
from gateway.jobs.batches.reply import Reply
from gateway.jobs.batches.task_run import FIRST_WAIT, LONGEST_WAIT, TaskRun

#: Refusal codes that end with some running request; other refusals state a time.
_IN_USE: Final = ("concurrent_requests", "budget_in_use")
#: The limit of a batch's concurrent requests is halved at most once in so many seconds.
_HALVE_SECONDS: Final = 0.25


class JobRun:
    """`stopping`: the batch ends before all of it is done; `running` are its requests here."""

    def __init__(self, job: JobName, request: BatchRequest, index: Sequence[Task]) -> None:
        self.job = job
        self.request = request
        self.index = index
        self.tasks: list[TaskRun] = []
        self.stopping = False
        self.running = 0
        #: Limit where a limit of the tenant refuses: half as many after a refusal, one more for so many answers.
        self._limit = inf
        self._halved_at = -inf
        self._claims_paused_until = 0.0
        self._paused_until = 0.0
        self._pause = 0.0

    @property
    def ready(self) -> int:
        """Requests that could begin now."""
        return sum(task.ready for task in self.tasks)

    def needs_task(self, now: float, low_water: int) -> bool:
        """Whether another task of the batch should be claimed."""
        if self.stopping or now < self._claims_paused_until or now < self._paused_until:
            return False
        return self.ready < low_water and not any(task.stuck for task in self.tasks)

    def needs_task_now(self, now: float, low_water: int) -> bool:
        """Whether another task should be claimed before the next regular search."""
        return bool(self.tasks) and self.needs_task(now, low_water)

    def pause_claims(self, until: float) -> None:
        """Claim nothing of the batch before that time: there was nothing more."""
        self._claims_paused_until = until

    def next_task(self, now: float) -> TaskRun | None:
        """Return the task whose request may begin now; the one claimed first goes first."""
        if self.stopping or now < self._paused_until or self.running >= self._limit:
            return None
        for task in self.tasks:
            if not task.stuck and not task.lost and task.peek(now) is not None:
                return task
        return None

    def answered(self) -> None:
        """Count a request with an answer."""
        self._limit += 1.0 / self._limit
        self._pause = 0.0

    def refused(self, reply: Reply, now: float) -> float:
        """Count a refusal; return the seconds until the request may be sent again.

        A limit of the tenant would refuse the batch's other requests for a while, too.
        """
        if reply.status != 429:
            return reply.retry_after
        if reply.record.code in _IN_USE and self.running:
            if now - self._halved_at >= _HALVE_SECONDS:
                self._halved_at = now
                self._limit = max(1.0, min(self._limit, self.running + 1.0) / 2.0)
            return 0.0
        if now >= self._paused_until:
            self._pause = min(LONGEST_WAIT, max(FIRST_WAIT, 2.0 * self._pause))
        wait = max(self._pause, reply.retry_after)
        self._paused_until = max(self._paused_until, now + wait)
        return wait
