"""Run batches in one worker: find work, lease it, and start requests where there is room."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from gateway.config.settings import Config
from gateway.jobs.batches.batch_room import Room
from gateway.jobs.batches.callers import Callers
from gateway.jobs.batches.job_run import JobRun
from gateway.jobs.batches.jobs import CHECK, FINISH, RENEW_SECONDS, Claim, JobName, Jobs
from gateway.jobs.batches.lines import TASK_REQUESTS
from gateway.jobs.batches.reply import PreparedRequest, Reply, RequestSender
from gateway.jobs.batches.stages import Stages, read_index
from gateway.jobs.batches.task_run import MOST_TRIES, TaskRun, Waiting
from gateway.jobs.files.content_keys import content_name
from gateway.jobs.files.file_store import Files
from gateway.models.catalog import ModelCatalog
from gateway.scheduling.admission_queue import AdmissionQueue
from protos.errors import BatchMissing, PenstockError, StoreUnavailable

log = logging.getLogger(__name__)

#: Seconds between searches for work, and between checks for room while requests wait.
POLL_SECONDS: Final = 1.0
ROOM_SECONDS: Final = 0.02
#: Seconds between removals of expired files and batches.
SWEEP_SECONDS: Final = 60.0
#: Bound on this worker's tasks; and the waiting requests of a batch below which another task of it is taken.
MOST_TASKS: Final = 64
LOW_WATER: Final = TASK_REQUESTS // 2
#: Requests started in one go, so that the event loop can run other work.
MOST_AT_ONCE: Final = 16
#: Seconds for running requests to hand in their results when the worker ends.
_ENDING_SECONDS: Final = 3.0


class BatchRunner:
    """Runs batches between `start` and `aclose`."""

    def __init__(
        self,
        config: Config,
        catalog: ModelCatalog,
        sender: RequestSender,
        jobs: Jobs,
        files: Files,
        callers: Callers,
    ) -> None:
        self._watermark = config.admission.watermark
        self._sender = sender
        self._jobs = jobs
        self._files = files
        #: By the admission queue: a model that is built anew has another one.
        self._rooms: dict[AdmissionQueue, Room] = {}
        self.use(config, catalog, callers)
        # Half of the worker's capacity stays free for other requests.
        self._most = min(config.batches.max_concurrency, max(1, config.listen.max_in_flight // 2))
        self._runs: deque[JobRun] = deque()
        #: Started requests, with their models' names.
        self._begun: dict[PreparedRequest, str] = {}
        self._running = 0
        self._held: dict[str, Claim] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._next_find = 0.0
        #: The periodic work that waits for something.
        self._waiting: set[Any] = set()

    def use(self, config: Config, catalog: ModelCatalog, callers: Callers) -> None:
        """Go by these models and callers from the next request on; those under way have theirs."""
        self._catalog = catalog
        self._callers = callers
        self._stages = Stages(self._jobs, self._files, callers, config, catalog.require)
        queues = {model.admission_queue for model in catalog.models.values()}
        self._rooms = {queue: room for queue, room in self._rooms.items() if queue in queues}

    def start(self) -> None:
        """Begin to look for work; needs a running event loop."""
        self._spawn(self._run())

    async def _run(self) -> None:
        self._spawn(self._every(RENEW_SECONDS, self._renew))
        self._spawn(self._every(SWEEP_SECONDS, self._sweep))
        while True:
            now = time.monotonic()
            if now >= self._next_find or any(run.needs_task_now(now, LOW_WATER) for run in self._runs):
                self._next_find = now + POLL_SECONDS
                await self._guarded(self._find)
            self._begin_some()
            waiting = any(run.ready for run in self._runs)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROOM_SECONDS if waiting else POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def aclose(self) -> None:
        """End running requests, and hand in the results so far."""
        work = list(self._work)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        held = [each for run in self._runs for each in run.tasks]
        requests = [request for each in held for request in each.running]
        for each in held:
            each.stop()
        await asyncio.gather(*requests, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_SECONDS):
                await asyncio.gather(*(each.hand_in("over" if each.over else "free", retry=False) for each in held))

    async def _find(self) -> None:
        """Claim work while there is room for it."""
        now = time.monotonic()
        active = await self._jobs.active()
        known = {run.job: run for run in self._runs}
        for job, enlisted in active:
            run = known.get(job)
            if run is not None and not run.needs_task(now, LOW_WATER):
                continue
            claim = await self._jobs.claim(job, secrets.token_hex(8), enlisted, tasks=self._has_room())
            if claim is None:
                if run is not None:
                    run.pause_claims(now + POLL_SECONDS)
                continue
            await self._take(claim, run)
        names = {job for job, _ in active}
        self._runs = deque(run for run in self._runs if run.tasks or run.job in names)

    async def _take(self, claim: Claim, run: JobRun | None) -> None:
        if claim.what == CHECK:
            self._spawn(self._stage(claim, self._stages.check(claim)))
        elif claim.what == FINISH:
            self._spawn(self._stage(claim, self._stages.finish(claim)))
        else:
            if run is None:
                run = await self._job_run(claim.job)
                self._runs.append(run)
            place = run.index[int(claim.what)]
            raw = await self._files.contents.read(
                content_name(claim.job.tenant, run.request.input_file_id), place.offset, place.length
            )
            task = TaskRun(claim, raw, self._jobs, self._files.contents)
            run.tasks.append(task)
            self._held[claim.token] = claim
            if task.over:
                self._spawn(self._hand_over(run, task))

    async def _job_run(self, job: JobName) -> JobRun:
        batch = await self._jobs.get(job.tenant, job.id)
        return JobRun(job, batch.request, await read_index(self._files, job))

    async def _stage(self, claim: Claim, work: Coroutine[Any, Any, None]) -> None:
        """Run a stage under its lease; one that fails is claimed again once the lease has expired."""
        self._held[claim.token] = claim
        try:
            await work
        except PenstockError as error:
            log.warning("batch %s: %s waits: %s", claim.job.id, claim.what, error.__cause__ or error.message)
        except Exception:
            log.exception("batch %s: %s failed", claim.job.id, claim.what)
        finally:
            self._held.pop(claim.token, None)
            self._find_soon()

    def _has_room(self) -> bool:
        if sum(len(run.tasks) for run in self._runs) >= MOST_TASKS or self._running >= self._most:
            return False
        return not self._rooms or any(room.free(lambda: 0) for room in self._rooms.values())

    def _begin_some(self) -> None:
        """Start requests where there is room, of one batch after another."""
        now, begun, passed = time.monotonic(), 0, 0
        while self._runs and passed < len(self._runs) and begun < MOST_AT_ONCE and self._running < self._most:
            run = self._runs[0]
            self._runs.rotate(-1)
            if self._begin_one(run, now):
                begun, passed = begun + 1, 0
            else:
                passed += 1
        if begun >= MOST_AT_ONCE:
            self._wake.set()

    def _begin_one(self, run: JobRun, now: float) -> bool:
        task = run.next_task(now)
        waiting = None if task is None else task.peek(now)
        if task is None or waiting is None:
            return False
        room = self._room(waiting.model)
        if room is not None and room.free(lambda: self._unsent(waiting.model)) < 1:
            return False
        task.take(now)
        self._running += 1
        run.running += 1
        if room is not None:
            room.begun()
        request = asyncio.create_task(self._request(run, task, waiting, room))
        task.running.add(request)
        request.add_done_callback(task.running.discard)
        return True

    async def _request(self, run: JobRun, task: TaskRun, waiting: Waiting, room: Room | None) -> None:
        well = True
        try:
            try:
                reply = await self._ask(run, task, waiting)
            finally:
                run.running -= 1
            now = time.monotonic()
            # A limit of the tenant says nothing about the fleet.
            well = reply.status != 503 and reply.record.code != "upstream_rate_limited"
            if reply.retryable and (reply.no_room or waiting.tries + 1 < MOST_TRIES):
                task.put_back(waiting, reply, now, run.refused(reply, now))
            else:
                task.answer(waiting, reply)
                run.answered()
                if reply.record.endpoint:
                    self._sender.ended(reply.record)
        finally:
            self._running -= 1
            if room is not None:
                room.ended(well=well)
            self._wake.set()
        if task.over:
            self._spawn(self._hand_over(run, task))

    async def _ask(self, run: JobRun, task: TaskRun, waiting: Waiting) -> Reply:
        try:
            caller = await self._callers.of(run.request.key_id)
            request = self._sender.request(caller, run.request.endpoint, waiting.body)
        except PenstockError as error:
            return self._sender.refused(error)
        self._begun[request] = waiting.model
        try:
            return await request.send()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.stopped or current is None or current.uncancel() > 0:
                if request.record.sent:
                    # Its tokens were used, so its record counts.
                    self._sender.ended(request.record)
                raise
            # The watchdog has cancelled the request, not the owner of the batch.
            return self._sender.refused(StoreUnavailable("The request was given up."))
        finally:
            del self._begun[request]

    async def _hand_over(self, run: JobRun, task: TaskRun) -> None:
        """Hand in the rest of a task that is over here."""
        await task.hand_in("over")
        self._drop(run, task)

    def _drop(self, run: JobRun, task: TaskRun) -> None:
        self._held.pop(task.claim.token, None)
        if task in run.tasks:
            run.tasks.remove(task)
        if run.stopping and not run.tasks and run in self._runs:
            # Other workers may claim its remaining tasks.
            self._runs.remove(run)
        run.pause_claims(0.0)
        self._find_soon()

    async def _renew(self) -> None:
        """Renew all leases, hand in results, and end the batches that must end."""
        outcomes = {token: await self._jobs.renew(claim) for token, claim in list(self._held.items())}
        for run in list(self._runs):
            for task in list(run.tasks):
                outcome = outcomes.get(task.claim.token, "ok")
                if outcome == "lost":
                    task.lost = True
                    task.stop()
                    self._drop(run, task)
                elif outcome != "ok":
                    run.stopping = True
                    if not task.stopped:
                        running = list(task.running)
                        task.stop()
                        self._spawn(self._end(run, task, running))
                elif task.has_results and not task.over and not task.stuck:
                    self._spawn(task.hand_in("keep"))

    async def _end(self, run: JobRun, task: TaskRun, running: "list[asyncio.Task[None]]") -> None:
        await asyncio.gather(*running, return_exceptions=True)
        await self._hand_over(run, task)

    async def _sweep(self) -> None:
        await self._files.sweep()
        for tenant in await self._files.tenants():
            await self._jobs.forget(tenant)

    async def _every(self, seconds: float, work: Any) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._guarded(work)

    async def _guarded(self, work: Any) -> None:
        """Run periodic work; log a failure (of an absent store once), since it is tried again."""
        try:
            await work()
        except BatchMissing:
            pass  # it has been forgotten meanwhile
        except PenstockError as error:
            if work not in self._waiting:
                log.warning("batches wait: %s", error.__cause__ or error.message)
            self._waiting.add(work)
            await asyncio.sleep(POLL_SECONDS)
        except Exception:
            log.exception("batches wait")
            await asyncio.sleep(POLL_SECONDS)
        else:
            self._waiting.discard(work)

    def _room(self, name: str) -> Room | None:
        """Return the room of the model with that name; None: there is none, which the endpoint will report."""
        model = self._catalog.find(name)
        if model is None:
            return None
        room = self._rooms.get(model.admission_queue)
        if room is None:
            room = Room(model.fleet, model.admission_queue, self._watermark)
            self._rooms[model.admission_queue] = room
        return room

    def _unsent(self, name: str) -> int:
        room = self._room(name)
        return sum(not request.record.sent and self._room(other) is room for request, other in self._begun.items())

    def _find_soon(self) -> None:
        self._next_find = 0.0
        self._wake.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
