"""The first and the last stage of a batch: check its input, and make files of its results."""

import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.jobs.batches.batch_records import Batch, LineProblem, Task
from gateway.jobs.batches.callers import Callers
from gateway.jobs.batches.jobs import Claim, JobName, Jobs
from gateway.jobs.batches.lines import Checked, Rules, check
from gateway.jobs.batches.results import Leftovers, write_results
from gateway.jobs.files.content import FileContent
from gateway.jobs.files.content_keys import content_name, work_name
from gateway.jobs.files.file_records import FileRecord
from gateway.jobs.files.file_store import DAY_SECONDS, Files
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ClientError, PenstockError

if TYPE_CHECKING:
    from gateway.config.settings import Config

log = logging.getLogger(__name__)

_INDEX: Final = "index"
_TASKS: Final = msgspec.json.Decoder(list[Task])
Permits = Callable[[Caller, str], object]


async def read_index(files: Files, job: JobName) -> list[Task]:
    """Return the tasks of a batch that has been checked. Raises ContentUnavailable."""
    name = work_name(job.tenant, job.id, _INDEX)

    def read(content: FileContent) -> bytes:
        found = bytearray()
        while piece := content.read(name, len(found), 1 << 18):
            found += piece
        return bytes(found)

    return _TASKS.decode(await files.contents.run(read))


class Stages:
    """The stages of one worker. Methods raise StoreUnavailable, StorageFull and ContentUnavailable."""

    def __init__(self, jobs: Jobs, files: Files, callers: Callers, config: "Config", permits: Permits) -> None:
        """`permits` raises a ClientError where a caller may not use a model."""
        self._jobs = jobs
        self._files = files
        self._callers = callers
        self._config = config
        self._permits = permits

    async def check(self, claim: Claim) -> None:
        """Check every line of the input; then start the batch, or fail it."""
        job = claim.job
        batch = await self._jobs.get(job.tenant, job.id)
        input_file = batch.request.input_file_id
        try:
            caller = await self._callers.of(batch.request.key_id)
        except ClientError as error:
            await self._jobs.failed(claim, [LineProblem(error.code or "invalid_request", error.message)], input_file)
            return
        checked = await self._checked(job, batch, caller)
        if checked.problems:
            await self._jobs.failed(claim, checked.problems, input_file)
            return
        await self._files.contents.put(work_name(job.tenant, job.id, _INDEX), msgspec.json.encode(checked.tasks))
        await self._jobs.checked(claim, len(checked.tasks), checked.requests, checked.model, input_file)

    async def finish(self, claim: Claim) -> None:
        """Join the results; then end the batch. Repeating it gives the same result."""
        job, files = claim.job, self._files
        batch = await self._jobs.get(job.tenant, job.id)
        leftovers = None
        if batch.outcome == "expired" and batch.number("total"):
            name = content_name(job.tenant, batch.request.input_file_id)
            leftovers = Leftovers(name, await read_index(files, job), await self._jobs.done(job))
        parts = [work_name(job.tenant, job.id, part) for part in await self._jobs.parts(job)]
        names = {kind: _result_id(job.id, kind) for kind in ("output", "errors")}
        created = 0.0
        for file_id in names.values():
            created = await files.begin(job.tenant, file_id)
        output, errors = (content_name(job.tenant, file_id) for file_id in names.values())
        written = await files.contents.run(lambda content: write_results(content, parts, output, errors, leftovers))
        found = {"output": "", "errors": ""}
        for kind, size in (("output", written.output), ("errors", written.errors)):
            if size:
                found[kind] = names[kind]
                await files.add(job.tenant, self._record(batch, names[kind], size, created, kind), bounded=False)
        input_file = batch.request.input_file_id
        await self._jobs.finish(claim, input_file, found["output"], found["errors"], written.expired)

    def _record(self, batch: Batch, file_id: str, size: int, created: float, kind: str) -> FileRecord:
        keep = batch.request.keep_seconds
        ends = created + (self._files.settings.keep_days * DAY_SECONDS if keep is None else keep)
        name = f"{batch.id}_{kind}.jsonl"
        return FileRecord(file_id, size, created, ends, name, "batch_output", ends=keep is not None)

    async def _checked(self, job: JobName, batch: Batch, caller: Caller) -> Checked:
        def refuses(model: str) -> str:
            try:
                self._permits(caller, model)
            except PenstockError as error:
                return error.message
            return ""

        record = await self._files.find(job.tenant, batch.request.input_file_id)
        missing = Checked([], [LineProblem("file_not_found", "The input file is not there.", "input_file_id")])
        if record is None:
            return missing
        most = self._config.listen.max_body_bytes
        rules = Rules(batch.request.endpoint, self._config.batches.max_requests, most, refuses)
        name, size = content_name(job.tenant, record.id), record.bytes

        def check_lines(content: FileContent) -> Checked:
            try:
                return check(content, name, size, rules)
            except FileNotFoundError:
                return missing

        return await self._files.contents.run(check_lines)


def _result_id(batch_id: str, kind: str) -> str:
    """Derive a file id that is the same for every worker and as hard to guess as the batch's own."""
    return "file-" + hashlib.sha256(f"{batch_id} {kind}".encode()).hexdigest()[:24]
