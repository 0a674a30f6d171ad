"""What the death of one replica of eight does to requests that others have."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.many_streams import Answer, answers_of, problems
from tests.e2e.site import Site
from tests.e2e.stack import HANGS_SECONDS, eventually
from tests.e2e.test_admin import admin, up

#: Times to first token are one or two steps of this length, so that a fifth of them is far above what this machine,
#: which runs all twelve processes and whatever else, does to them when it is quiet.
SLOW_PACE_MS = 250.0
#: A machine that is not quiet can only make times longer, and seldom in every round. What the gateway does to requests
#: when a replica dies, it does in every round.
ROUNDS = 3
CLIENTS = 64
SECONDS = 5.0
#: Of each client after the death: more than enough for each worker to try every replica many times.
MORE = 8


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        made = Site(Path(name), SLOW_PACE_MS)
        try:
            made.start()
            yield made
        finally:
            made.close()


def test_once_it_is_noticed_nobody_tries_a_dead_replica(site: Site) -> None:
    """Every request under way when it dies is answered, and later ones are given to the others, each at once."""
    eventually(lambda: up(site.stack), "the admin API is up")
    during, after = asyncio.run(asyncio.wait_for(_through_a_death(site), HANGS_SECONDS))
    assert problems(during) == problems(after) == []
    assert len(after) == CLIENTS * MORE


async def _through_a_death(site: Site) -> tuple[list[Answer], list[Answer]]:
    """Answers of clients that ask while a replica dies, until all workers have noticed; and those that begin then."""
    during: list[Answer] = []
    noticed = False

    async def ask_on(client: int) -> None:
        while not noticed:
            await _ask(site, client, during)

    clients = [asyncio.create_task(ask_on(client)) for client in range(CLIENTS)]
    while len(during) < 2 * CLIENTS:  # noqa: ASYNC110 (they have no event)
        await asyncio.sleep(0.01)
    await asyncio.to_thread(site.replicas["east/3"].kill)
    await asyncio.to_thread(eventually, lambda: site.agree_on(7), "it is noticed")
    noticed = True
    await asyncio.gather(*clients)
    retries = await asyncio.to_thread(_retries, site, len(during))

    after: list[Answer] = []

    async def ask_more(client: int) -> None:
        for _ in range(MORE):
            await _ask(site, client, after)

    await asyncio.gather(*(ask_more(client) for client in range(CLIENTS)))
    assert await asyncio.to_thread(_retries, site, len(during) + len(after)) == retries
    return during, after


async def _ask(site: Site, client: int, answers: list[Answer]) -> None:
    (answer,) = answers_of([client * 1000 + len(answers)], 1)
    answers.append(answer)
    await answer.read(site.stack)


def _retries(site: Site, requests: int) -> float:
    """Second submits of that many requests, once all of them have been counted."""
    pages: list[str] = []

    def counted() -> bool:
        pages.append(admin(site.stack, "GET", "/metrics")[2].decode())
        return _sum(pages[-1], "penstock_requests_total") == requests

    eventually(counted, f"{requests} requests are counted")
    return _sum(pages[-1], "penstock_retries_total")


def _sum(page: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + "{"))


@pytest.mark.drill
def test_one_dead_replica_of_eight_does_not_slow_the_others(site: Site) -> None:
    """The p99 of requests that begin after its death, and so are not its own, against those that ended before."""
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
            await _ask(site, client, answers)

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
