"""Handing in what was answered: whatever fails or is cancelled on the way, each result counts once."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.batches import task_run
from gateway.jobs.batches.batch_records import Counted
from gateway.jobs.batches.jobs import Claim, JobName
from gateway.jobs.batches.reply import Reply
from gateway.jobs.batches.results import WHOLE, done_of
from gateway.jobs.batches.task_run import TaskRun
from observability.record import RequestRecord
from protos.errors import StoreUnavailable
from tests.uploads import request_lines

CLAIM = Claim(JobName("acme", "batch_1"), "0000000", "me", "")
#: What becomes of a commit: it is made and answered, made and not answered, not made, or made while nobody listens.
FATES = ("fine", "no answer", "not made", "cancelled")


class World:
    """As the store and the content keep it: parts by name, and each counted with the first commit that names it."""

    def __init__(self, fates: list[str]) -> None:
        self.fates = fates
        self.content: dict[str, bytes] = {}
        self.parts: list[str] = []
        self.done = ""
        self.completed = 0

    async def put(self, name: str, data: bytes) -> None:
        self.content[name] = data

    async def commit(self, claim: Claim, part: str, done: str, then: str, counted: Counted) -> bool:
        fate = self.fates.pop(0) if self.fates else "fine"
        if fate == "not made":
            raise StoreUnavailable
        if not part or part not in self.parts:
            if part:
                self.parts.append(part)
            self.done = done
            self.completed += counted.completed
        if fate == "no answer":
            raise StoreUnavailable
        if fate == "cancelled":
            raise asyncio.CancelledError
        return True


@given(st.lists(st.sampled_from(FATES), max_size=12), st.lists(st.integers(1, 5), min_size=1, max_size=6))
async def test_each_result_counts_once(fates: list[str], groups: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_run, "RETRY_SECONDS", 0.0)
        world = World(list(fates))
        total = sum(groups)
        run = TaskRun(CLAIM, request_lines(total), world, world)  # type: ignore[arg-type]
        for size in groups:
            for _ in range(size):
                waiting = run.take(0.0)
                run.answer(waiting, Reply(200, "req_1", b"{}", RequestRecord("", "", 0.0, 0.0), False, 0.0))
            try:
                await run.hand_in("keep")
            except asyncio.CancelledError:
                continue
        while True:
            try:
                await run.hand_in("over")
                break
            except asyncio.CancelledError:
                continue
        assert run.over
        lines = [
            line for part in world.parts for line in world.content["work/acme/batch_1/" + part + ".output"].splitlines()
        ]
        assert sorted(json.loads(line)["custom_id"] for line in lines) == sorted(f"line-{n}" for n in range(total))
        assert (world.completed, world.done) == (total, WHOLE)


def test_what_others_have_done_is_not_begun_again() -> None:
    claim = Claim(CLAIM.job, CLAIM.what, CLAIM.token, "5")
    run = TaskRun(claim, request_lines(4), None, None)  # type: ignore[arg-type]
    assert [run.take(0.0).custom_id for _ in range(run.ready)] == ["line-1", "line-3"]
    assert done_of(WHOLE) == -1
