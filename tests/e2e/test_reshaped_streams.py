"""Clients' streams through a gateway, whose replicas are a group that changes its shape."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.e2e.many_streams import Answer, all_begun, answers_of, problems, read_all
from tests.e2e.raw import ask
from tests.e2e.reshaped_site import Site, moment_of, site_of
from tests.e2e.stack import HANGS_SECONDS, Stack, config_text, eventually
from tests.ports import free_port


@contextlib.contextmanager
def gateway(site: Site) -> Iterator[Stack]:
    """A gateway with two workers in front of a group, once all of it takes requests."""
    lines = config_text(free_port(), workers=2).splitlines()
    (at,) = [number for number, line in enumerate(lines) if "name: narrow" in line]
    found = ", ".join(member.address for member in site.members)
    lines[at] = f"      - {{name: narrow, shape: {{tp: 1}}, engine: simulated, replicas: [{found}]}}"
    stack = Stack(site.folder, "\n".join(lines) + "\n")
    try:
        stack.start()
        eventually(lambda: b'"ready":4' in ask(stack, method="GET", path="/readyz")[2], "four take requests")
        yield stack
    finally:
        stack.close()


def texts(answers: list[Answer]) -> list[str]:
    assert problems(answers) == []
    return [answer.text for answer in answers]


def run(pace_ms: float, work: Callable[[Site, Stack], Awaitable[None]], seconds: float) -> None:
    """Do something with a gateway in front of a group."""

    async def main() -> None:
        async with site_of(pace_ms) as site, contextlib.AsyncExitStack() as last:
            # The loop goes on meanwhile, so that the orderer's sessions live.
            held = gateway(site)
            stack = await asyncio.to_thread(held.__enter__)
            last.push_async_callback(asyncio.to_thread, held.__exit__, None, None, None)
            await work(site, stack)
            assert "engine_error" not in stack.errors

    asyncio.run(asyncio.wait_for(main(), seconds))


def test_the_text_of_streams_is_the_same_as_without_any_change() -> None:
    async def work(site: Site, stack: Stack) -> None:
        whole, changed = answers_of(range(24), 500), answers_of(range(24), 500)
        await read_all(stack, whole)
        reading = asyncio.create_task(read_all(stack, changed))
        await all_begun(changed)
        for _ in range(2):
            assert await site.change() == []
            await asyncio.sleep(0.3)
        assert not reading.done()
        await reading
        assert texts(changed) == texts(whole)
        await site.loads()

    run(8.0, work, 3 * HANGS_SECONDS)


@pytest.mark.drill
def test_sixty_four_clients_see_twenty_changes_with_kills() -> None:
    async def work(site: Site, stack: Stack) -> None:
        chance, over, told = random.Random(32), asyncio.Event(), 0
        whole = answers_of(range(64), 400)
        await read_all(stack, whole)
        expected = texts(whole)

        async def keep(number: int) -> None:
            nonlocal told
            while not over.is_set():
                (answer,) = answers_of([number], 400)
                await answer.read(stack)
                assert texts([answer]) == [expected[number]]
                told += 1

        tasks = [asyncio.create_task(keep(number)) for number in range(64)]
        for _ in range(20):
            await site.change_and_kill(moment_of(chance), chance.randrange(4))
            if chance.random() < 0.5:
                await site.change()
        over.set()
        await asyncio.gather(*tasks)
        assert told > 200
        await site.loads()

    run(5.0, work, 600)
