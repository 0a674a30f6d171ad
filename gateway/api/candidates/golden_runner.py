"""Run golden sets that the controller of rollouts wants, one at a time in a worker."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gateway.api.candidates.candidate_requests import CandidateRequests
from gateway.config.tenants import Tenant, Tier
from gateway.models.served_model import ServedModel
from gateway.rollouts.comparison.read_answer import NotAnAnswer, read_answer
from gateway.rollouts.golden.golden_jobs import LOOK_SECONDS, GoldenJob, GoldenJobs, GoldenResult
from gateway.rollouts.replay.corpus import BadLines, Entry, read_corpus
from gateway.rollouts.replay.run_difference import Thresholds, compare_entry, pairs_of, summarize
from gateway.rollouts.replay.run_file import Failure, Result
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.tenants.caller import Caller
from protos.errors import Overloaded, StoreUnavailable

log = logging.getLogger(__name__)

#: Requests to each version at a time, the most seconds of one, and the tries where there is no room.
_TOGETHER: Final = 4
_SECONDS: Final = 120.0
_TRIES: Final = 20
_WAIT_SECONDS: Final = 0.5
#: The tenant of these requests; no tenant's name has a slash.
_TENANT: Final = "rollouts/golden"
_STREAMING: Final = frozenset({"stream", "stream_options"})


class GoldenRunner:
    """Looks once a second for a run that is wanted of a model that goes by version."""

    def __init__(
        self,
        jobs: GoldenJobs,
        requests: CandidateRequests,
        models: Callable[[], Mapping[str, ServedModel]],
        worker: str,
    ) -> None:
        """`models` gives those that are served, `worker` is this one's name."""
        self._jobs = jobs
        self._requests = requests
        self._models = models
        self._worker = worker
        tenant = Tenant(name=_TENANT)
        self._caller = Caller(
            ApiKey(key_id=_TENANT, name=_TENANT, tenant=_TENANT, created_at=0.0), tenant, Tier(name="golden"), 0
        )

    async def run(self) -> None:
        """Run what is wanted, until cancelled."""
        while True:
            try:
                for name in [name for name, model in self._models().items() if model.versions is not None]:
                    job = await self._jobs.take(name, self._worker)
                    if job is not None:
                        await self._run(job)
            except StoreUnavailable:
                log.debug("golden sets wait for the store")
            except Exception:
                # Any error: no other golden set would run in this worker.
                log.exception("running a golden set")
            await asyncio.sleep(LOOK_SECONDS)

    async def _run(self, job: GoldenJob) -> None:
        """Run one, for as long as it is wanted of this worker, and hand its result in."""
        running = asyncio.create_task(self._result(job))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=LOOK_SECONDS)
                if not running.done() and await self._jobs.take(job.model, self._worker) != job:
                    return
            await self._jobs.end(job, self._worker, _outcome(running))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _result(self, job: GoldenJob) -> GoldenResult:
        try:
            corpus = await asyncio.to_thread(read_corpus, Path(job.corpus))
        except BadLines as error:
            return GoldenResult(passed=False, reason=f"the golden set cannot be read: {error}")
        entries = corpus.entries
        sides = [
            {result.id: result for result in await self._asked(job, version, entries)}
            for version in (job.stable, job.candidate)
        ]
        thresholds = Thresholds(similar=job.similar, alike=job.alike, failed=job.failed, broken=job.broken)
        pairs = pairs_of(entries, *sides)
        found = await asyncio.to_thread(lambda: [compare_entry(*pair, similar=job.similar) for pair in pairs])
        names = (job.stable, job.candidate)
        told = summarize(pairs, found, thresholds, names=names, entries=len(entries))
        if told.passed:
            alike = f"{told.report.alike:.1%} of {told.report.compared} answers to the golden set are alike"
            return GoldenResult(passed=True, reason=alike)
        return GoldenResult(passed=False, reason=f"golden set: {'; '.join(told.violations)}")

    async def _asked(self, job: GoldenJob, version: str, entries: Sequence[Entry]) -> list[Result]:
        turns = asyncio.Semaphore(_TOGETHER)

        async def ask(entry: Entry) -> Result:
            async with turns:
                return await self._ask(job.model, version, entry)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(entry)) for entry in entries]
        return [task.result() for task in tasks]

    async def _ask(self, model: str, version: str, entry: Entry) -> Result:
        body = {name: value for name, value in entry.body.items() if name not in _STREAMING} | {"model": model}
        path, data = entry.path.removeprefix("/v1"), msgspec.json.encode(body)
        for number in range(_TRIES):
            told = await self._requests.ask(self._caller, version, path, data, seconds=_SECONDS)
            if told.code != Overloaded.code or number == _TRIES - 1:
                break
            await asyncio.sleep(_WAIT_SECONDS)
        if told.status != 200:
            return Result(id=entry.id, failure=Failure(told.status, told.code, ""), seconds=told.seconds)
        try:
            answer = read_answer(told.body)
        except NotAnAnswer as error:
            return Result(id=entry.id, failure=Failure(told.status, "not_an_answer", str(error)), seconds=told.seconds)
        return Result(id=entry.id, answer=answer, version=told.version, seconds=told.seconds)


def _outcome(running: "asyncio.Task[GoldenResult]") -> GoldenResult:
    """Return a run's result; a failed one of what ended with an error, which would end so again."""
    error = running.exception()
    if error is None:
        return running.result()
    log.error("running a golden set", exc_info=error)
    return GoldenResult(passed=False, reason=f"the golden set cannot be run: {type(error).__name__}")
