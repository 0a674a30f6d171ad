"""Requests that lose a wide replica, and wait for those whose GPUs it had."""

import asyncio

import pytest

from protos.errors import ReplicaUnavailable
from protos.reshape import Span
from protos.types import Failure, Finish, FinishReason
from routing.dispatch import failover_stream
from routing.dispatch.dispatch import Dispatched
from routing.fleet import host_groups
from tests.harness import submit_of
from tests.loops import until
from tests.routing.grouped_world import World, world_of
from tests.routing.mortal import begin, read

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


async def wide_with_answers(world: World, count: int) -> list[Dispatched]:
    """Answers with a token each at the wide replica of a group of four."""
    one, *others = world.replicas
    await one.serve(Span(0, 4))
    for other in others:
        await other.park(one, Span(0, 4))
    await until(lambda: world.shapes == {"p/0": 4})
    begun = []
    for number in range(count):
        task = asyncio.create_task(begin(world.fleet, submit_of(8, name=f"r{number}"), dispatch_context=world.context))
        await until(lambda number=number: len(one.given) == number + 1)  # type: ignore[misc]
        begun.append(task)
    await one.say(1)
    return [await task for task in begun]


async def test_answers_of_a_lost_wide_replica_are_spread_over_the_members_that_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_groups, "SPREAD_SECONDS", 60.0)
    monkeypatch.setattr(failover_stream, "MEMBER_SECONDS", 60.0)
    async with world_of(4) as world:
        one, *others = world.replicas
        answers = await wide_with_answers(world, 6)
        one.open.clear()
        await one.send_bytes(b"\xff")
        await until(lambda: not world.shapes)
        for gpu, other in enumerate(others, 1):
            assert [len(replica.given) for replica in others] == [0, 0, 0]
            await other.serve(Span(gpu, 1))
            await until(lambda gpu=gpu: f"p/{gpu}" in world.shapes)  # type: ignore[misc]
        await until(lambda: sum(len(replica.given) for replica in others) == 6)
        assert [len(replica.given) for replica in others] == [2, 2, 2]
        for answer in answers:
            answer.stream.close()


async def test_they_are_spread_too_where_the_wide_replica_itself_goes_on_narrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_groups, "SPREAD_SECONDS", 60.0)
    monkeypatch.setattr(failover_stream, "SPREAD_SECONDS", 60.0)
    monkeypatch.setattr(failover_stream, "MEMBER_SECONDS", 60.0)
    async with world_of(4) as world:
        one, *others = world.replicas
        answers = await wide_with_answers(world, 8)
        await one.serve(Span(0, 1))
        await one.say(end=Finish(FinishReason.ERROR, failure=Failure("moved", "the replica has lost GPUs")))
        await until(lambda: world.shapes == {"p/0": 1})
        for gpu, other in enumerate(others, 1):
            await other.serve(Span(gpu, 1))
        await until(lambda: sum(len(replica.given) for replica in world.replicas) == 8)
        assert [len(replica.given) for replica in world.replicas] == [2, 2, 2, 2]
        for answer in answers:
            answer.stream.close()


async def test_for_a_member_that_does_not_return_they_wait_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_groups, "SPREAD_SECONDS", 0.01)
    monkeypatch.setattr(failover_stream, "SPREAD_SECONDS", 0.01)
    async with world_of(4) as world:
        one, other, *_ = world.replicas
        answers = await wide_with_answers(world, 2)
        one.open.clear()
        await one.send_bytes(b"\xff")
        await until(lambda: not world.shapes)
        await other.serve(Span(1, 1))
        await until(lambda: len(other.given) == 2)
        for answer in answers:
            answer.stream.close()


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
