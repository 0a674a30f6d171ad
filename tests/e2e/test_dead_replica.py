"""What the death of one replica of eight does to requests that others have."""

import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.many_streams import Answer, answers_of, problems
from tests.e2e.site import Site
from tests.e2e.stack import HANGS_SECONDS

#: Times to first token are one or two steps of this length, so that a fifth of them is far above what this machine,
#: which runs all twelve processes and whatever else, does to them when it is quiet.
SLOW_PACE_MS = 250.0
#: A machine that is not quiet can only make times longer, and seldom in every round. What the gateway does to requests
#: when a replica dies, it does in every round.
ROUNDS = 3
CLIENTS = 64
SECONDS = 5.0


def test_one_dead_replica_of_eight_does_not_slow_the_others() -> None:
    """The p99 of requests that begin after its death, and so are not its own, against those that ended before."""
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        site = Site(Path(name), SLOW_PACE_MS)
        stack.callback(site.close)
        site.start()
        ratios: list[float] = []
        while len(ratios) < ROUNDS and min(ratios, default=2.0) > 1.2:
            before, after = asyncio.run(asyncio.wait_for(_round(site), HANGS_SECONDS))
            ratios.append(_p99(after) / _p99(before))
            site.replicas["east/3"].start()
            site.wait_ready(8)
    assert min(ratios) <= 1.2, ratios


async def _round(site: Site) -> tuple[list[float], list[float]]:
    """Times to first token before and after the death of one replica, under steady load; no request may fail."""
    answers: list[Answer] = []
    died = 0.0

    async def ask_on(client: int) -> None:
        while not died or time.monotonic() < died + SECONDS:
            (answer,) = answers_of([client * 1000 + len(answers)], 1)
            answers.append(answer)
            await answer.read(site.stack)

    clients = [asyncio.create_task(ask_on(client)) for client in range(CLIENTS)]
    await asyncio.sleep(SECONDS)
    died = time.monotonic()
    await asyncio.to_thread(site.replicas["east/3"].kill)
    await asyncio.gather(*clients)
    assert problems(answers) == []
    before = [answer.ttft for answer in answers if answer.times[0] < died]
    after = [answer.ttft for answer in answers if answer.began >= died]
    assert min(len(before), len(after)) > 300
    return before, after


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]
