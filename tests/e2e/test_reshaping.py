"""A group of replica processes that changes its shape under streams, and whose members are killed meanwhile."""

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator

import pytest

from protos.types import Submit
from tests.e2e.reshaped_site import Site, moment_of, site_of
from tests.harness import submit_of
from tests.loops import BOUND_SECONDS, until
from tests.reshaping import Follower


def requests(count: int, tokens: int) -> list[Submit]:
    return [submit_of(tokens, prompt=range(3, 60 + 7 * number), name=f"r{number}") for number in range(count)]


class Streams:
    """A worker's streams, which go on all the time."""

    def __init__(self, follower: Follower) -> None:
        self.follower, self.answers = follower, 0

    async def keep(self, submit: Submit, whole: list[int], over: asyncio.Event) -> None:
        """Ask the same again and again; each answer is as it is without any change."""
        while not over.is_set():
            assert await self.follower.ask(submit) == whole
            self.answers += 1


@contextlib.asynccontextmanager
async def streaming(site: Site, count: int, tokens: int) -> AsyncIterator[Streams]:
    """Streams of so many tokens at a time; nothing is left of them at the end."""
    submits = requests(count, tokens)
    async with Follower(member.address for member in site.members) as follower:
        streams = Streams(follower)
        whole = await asyncio.gather(*(follower.ask(submit) for submit in submits))
        over = asyncio.Event()
        tasks = [asyncio.create_task(streams.keep(*each, over)) for each in zip(submits, whole, strict=True)]
        try:
            yield streams
        finally:
            over.set()
            await asyncio.wait_for(asyncio.gather(*tasks), BOUND_SECONDS)
        await site.loads()


async def test_four_processes_become_a_wide_replica_and_four_again() -> None:
    async with site_of(5.0) as site:
        async with streaming(site, 12, 300) as streams:
            for _ in range(4):
                assert await site.change() == []
                await asyncio.sleep(0.3)
        assert streams.follower.lost == 0
        # What was moved found its KV cache where it went.
        assert streams.follower.moves > 0


@pytest.mark.parametrize(("moment", "gpu"), [(0.05, 3), (0.6, 0)])
async def test_a_member_that_is_killed_in_a_change_costs_no_stream(moment: float, gpu: int) -> None:
    async with site_of(5.0) as site, streaming(site, 12, 300):
        await site.change_and_kill(moment, gpu)
        assert await site.change() == []


@pytest.mark.drill
@pytest.mark.parametrize("gpu", [0, 2])
async def test_a_member_of_a_wide_replica_that_is_frozen_is_left_and_comes_back(gpu: int) -> None:
    async with site_of(5.0) as site, streaming(site, 12, 300):
        assert await site.change() == []
        frozen = site.members[gpu].process
        frozen.send_signal(signal.SIGSTOP)
        try:
            others = [one for number, one in enumerate(site.orderer.watched) if number != gpu]
            for one in others:
                await one.until(lambda membership: membership.span.width == 1)
        finally:
            frozen.send_signal(signal.SIGCONT)
        await until(site.settled, seconds=BOUND_SECONDS)
        assert await site.change() == []


@pytest.mark.drill
def test_sixty_four_streams_see_twenty_changes_with_kills() -> None:
    async def run() -> None:
        chance = random.Random(31)
        async with site_of(5.0) as site:
            async with streaming(site, 64, 400) as streams:
                for _ in range(20):
                    await site.change_and_kill(moment_of(chance), chance.randrange(4))
                    if chance.random() < 0.5:
                        await site.change()
            assert streams.answers > 200
            await until(site.settled)

    asyncio.run(asyncio.wait_for(run(), 600))
