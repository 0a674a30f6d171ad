"""Replicas that die, freeze and are drained under 256 streams, with every process a real one."""

import asyncio
import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.many_streams import Answer, all_begun, answers_of, problems, read_all
from tests.e2e.raw import ask
from tests.e2e.site import Site
from tests.e2e.stack import HANGS_SECONDS, MODEL, eventually
from tests.e2e.test_admin import admin, up

STREAMS = 256
TOKENS = 100
#: A step of every replica: an answer takes four seconds.
PACE_MS = 40.0


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        made = Site(Path(name), PACE_MS)
        stack.callback(made.close)
        made.start()
        yield made


@pytest.fixture(scope="module")
def expected(site: Site) -> list[str]:
    """What all questions are answered with when nothing happens."""
    answers = answers_of(range(STREAMS), TOKENS)
    asyncio.run(read_all(site.stack, answers))
    assert problems(answers) == []
    assert len({answer.text for answer in answers}) > STREAMS / 2, "they must differ for this to mean anything"
    return [answer.text for answer in answers]


@pytest.fixture(autouse=True)
def whole(site: Site) -> Iterator[None]:
    """Every test finds all replicas in service; one that an earlier test took away may still be on its way back.

    It is another one in each test, so that what a test takes away has its full part of the requests.
    """
    site.wait_ready(8)
    yield


def disturbed(site: Site, disturb: Callable[[], Any], begun: int) -> list[Answer]:
    """All answers, of which so many have tokens and the others none when `disturb` is called."""
    answers = answers_of(range(STREAMS), TOKENS)

    async def run() -> None:
        early, late = answers[:begun], answers[begun:]
        first = asyncio.create_task(read_all(site.stack, early))
        await all_begun(early)
        second = asyncio.create_task(read_all(site.stack, late))
        # The late ones reach the replicas in the step under way.
        await asyncio.sleep(PACE_MS / 1000)
        await asyncio.to_thread(disturb)
        await asyncio.gather(first, second)

    asyncio.run(asyncio.wait_for(run(), HANGS_SECONDS))
    return answers


def test_a_killed_replica_breaks_no_stream_and_costs_no_request(site: Site, expected: list[str]) -> None:
    victim = site.replicas["east/1"]
    answers = disturbed(site, victim.kill, STREAMS - 64)
    assert problems(answers) == []
    assert [answer.text for answer in answers] == expected
    assert site.moved_from("east/1")
    assert site.agree_on(7)
    victim.start()
    site.wait_ready(8)


def test_a_frozen_replica_is_noticed_and_comes_back(site: Site, expected: list[str]) -> None:
    victim = site.replicas["west/2"]
    frozen = noticed = 0.0

    def freeze() -> None:
        nonlocal frozen, noticed
        victim.signal(signal.SIGSTOP)
        frozen = time.monotonic()
        eventually(lambda: site.agree_on(7), "it is noticed")
        noticed = time.monotonic()

    answers = disturbed(site, freeze, STREAMS - 64)
    assert problems(answers) == []
    assert [answer.text for answer in answers] == expected
    assert site.moved_from("west/2")
    went_on = [answer for answer in answers if any(frozen < at < noticed for at in answer.times)]
    assert len(went_on) > STREAMS / 2, "the others did not wait"
    victim.signal(signal.SIGCONT)
    site.wait_ready(8)


@pytest.mark.parametrize("grace", [1.0, 30.0])
def test_a_drained_pool_empties_without_an_error(site: Site, expected: list[str], grace: float) -> None:
    """After a short grace what runs moves on; within a long one it ends where it is."""

    def drain() -> None:
        # Not the command, whose start takes as long as streams last on a machine that is busy.
        body = {"model": MODEL, "target": "east", "grace_seconds": grace}
        assert admin(site.stack, "POST", "/admin/replicas/drain", body)[0] == 200
        eventually(lambda: site.agree_on(4), "every worker heeds it")

    eventually(lambda: up(site.stack), "the admin API is up")
    moved_before = sum(site.moved_from(f"east/{number}") for number in range(4))
    answers = disturbed(site, drain, STREAMS - 64)
    try:
        assert problems(answers) == []
        assert [answer.text for answer in answers] == expected
        moved = sum(site.moved_from(f"east/{number}") for number in range(4)) - moved_before
        assert (moved > 0) == (grace == 1.0)

        def empty(rows: dict[str, dict[str, Any]]) -> bool:
            return all((row["state"] == "drained") == (row["pool"] == "east") for row in rows.values())

        site.wait_state(empty, "the pool is empty, and the other one is not")
        # What a replica has in flight is as old as its last report.
        site.wait_state(lambda rows: not any(row["in_flight"] for row in rows.values()), "nothing is in flight")
    finally:
        assert site.stack.run("replicas", "resume", "east").returncode == 0
    site.wait_ready(8)


async def test_a_replica_that_drains_by_itself_is_shown_so(site: Site, expected: list[str]) -> None:
    del expected
    victim = site.replicas["east/0"]
    answers = answers_of(range(8), TOKENS)

    reading = asyncio.create_task(read_all(site.stack, answers))
    await all_begun(answers)
    victim.signal(signal.SIGTERM)
    await asyncio.to_thread(
        site.wait_state, lambda rows: rows["east/0"]["state"] in ("draining", "connecting"), "it drains"
    )
    await reading
    assert problems(answers) == []
    site.wait_ready(7)
    victim.kill()
    victim.start()
    site.wait_ready(8)


def test_nobody_left_is_said_at_once(site: Site) -> None:
    for pool in ("east", "west"):
        done = site.stack.run("replicas", "drain", pool)
        assert done.returncode == 0
    assert "no replica of mixtral-8x7b is left" in done.stdout
    try:
        site.wait_ready(0)
        (answer,) = answers_of([1], 1)
        status, headers, body = ask(site.stack, answer.body)
        assert (status, json.loads(body)["error"]["code"]) == (503, "replica_unavailable")
        assert float(headers["retry-after"]) >= 1
    finally:
        for pool in ("east", "west"):
            assert site.stack.run("replicas", "resume", pool).returncode == 0
    site.wait_ready(8)
