"""Requests that lose a wide replica, and wait for those whose GPUs it had."""

import asyncio

import pytest

from protos.errors import ReplicaUnavailable
from protos.reshape import Span
from protos.types import Finish, FinishReason
from routing.dispatch import failover_stream
from routing.dispatch.dispatch import Dispatched
from tests.loops import until
from tests.routing.grouped_world import World, world_of
from tests.routing.mortal import read

DONE = Finish(FinishReason.STOP, 3, 0, 4)


async def stranded(world: World, *tokens: int) -> Dispatched:
    """An answer with these tokens, whose wide replica is gone and whose other GPU nobody serves yet."""
    one = world.replicas[0]
    await world.merge()
    begun = await world.start(one, *tokens)
    one.open.clear()
    await one.send_bytes(b"\xff")
    await until(lambda: not world.shapes)
    return begun


async def test_an_answer_goes_on_at_the_first_member_that_serves_again() -> None:
    async with world_of() as world:
        begun = await stranded(world, 1, 2)
        await asyncio.sleep(0.05)
        assert not begun.stream.failed
        other = world.replicas[1]
        await other.serve(Span(1, 1))
        await until(lambda: bool(other.given))
        assert other.given[0].generated == 2
        await other.say(3, end=DONE)
        assert (await read(begun)).tokens == [[1, 2, 3]]


async def test_it_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_stream, "MEMBER_SECONDS", 0.05)
    async with world_of() as world:
        begun = await stranded(world, 1, 2)
        with pytest.raises(ReplicaUnavailable):
            while True:
                await begun.stream.receive()
        begun.stream.close()


async def test_without_parked_replicas_it_ends_at_once() -> None:
    async with world_of(1) as world:
        begun = await world.start(world.replicas[0], 1, 2)
        await world.replicas[0].send_bytes(b"\xff")
        await until(lambda: begun.stream.failed)
        begun.stream.close()


async def test_one_that_is_closed_meanwhile_does_not_begin_again() -> None:
    async with world_of() as world:
        begun = await stranded(world, 1, 2)
        begun.stream.close()
        other = world.replicas[1]
        await other.serve(Span(1, 1))
        await until(lambda: world.shapes == {"p/1": 1})
        await asyncio.sleep(0.02)
        assert other.given == []


async def test_a_sequence_whose_reader_has_enough_does_not_go_on() -> None:
    async with world_of() as world:
        begun = await stranded(world, 1, 2)
        begun.stream.dismiss(0)
        other = world.replicas[1]
        await other.serve(Span(1, 1))
        await until(lambda: world.shapes == {"p/1": 1})
        await asyncio.sleep(0.02)
        assert other.given == []
        begun.stream.close()
