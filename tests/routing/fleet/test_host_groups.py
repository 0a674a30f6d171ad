"""Replicas of host groups over real sessions: they change their shape, are parked, and give their requests away."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

import routing.transports.session_transport
from protos import codec
from protos.errors import SequenceMoved
from protos.prefix_hash import prefix_hashes
from protos.reshape import MemberState, Span
from protos.types import Failure, Finish, FinishReason, KvUpdate, Load, Shape
from routing.contracts.policy import RouteRequest
from routing.dispatch.dispatch import RequestHandle, dispatch
from routing.dispatch.dispatch_context import HAS_KV_CACHE
from routing.dispatch.migration import MAX_MOVES
from routing.health.replica_status import State
from routing.transports.session_transport import LATE_SECONDS
from tests.grouped import BLOCKS, NARROW, GroupedReplica, group_of, kv_tokens
from tests.harness import submit_of
from tests.loops import until
from tests.routing.grouped_world import WHOLE, World, seen, world_of
from tests.routing.mortal import begin, read

DONE = Finish(FinishReason.STOP, 3, 0, 4)
PARKED = "its GPU belongs to a wider replica of its host group"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.session_transport, "LAST_RETRY_SECONDS", 0.02)


async def test_a_merge_leaves_one_wide_candidate_and_its_split_two_narrow_ones() -> None:
    async with world_of() as world:
        assert world.shapes == {"p/0": 1, "p/1": 1}
        assert (world.fleet.narrow_tokens, world.fleet.wide_tokens) == (kv_tokens(1), kv_tokens(2))
        await world.merge()
        (view,) = world.fleet.candidates()
        assert view.load.kv_blocks_total * view.kv_block_tokens == kv_tokens(2)
        assert world.states == [State.READY, State.PARKED]
        assert world.fleet.problems() == {"p/1": PARKED}
        first, second = world.fleet.statuses()
        assert first.group is not None and second.group is not None
        assert (first.shape, first.group.span, first.group.state) == (Shape(tp=2), WHOLE, MemberState.SERVING)
        assert (second.group.gpu, second.group.span, second.group.state) == (1, WHOLE, MemberState.PARKED)
        await world.split()
        assert world.states == [State.READY, State.READY]


async def test_a_moved_answer_goes_on_where_its_kv_cache_is() -> None:
    async with world_of(4) as world:
        one, *_, last = world.replicas
        begun = await world.start(last, 1, 2, 3, 4, 5)
        await one.serve(Span(0, 4))
        await last.park(one, Span(0, 4))
        await until(lambda: bool(one.given))
        (submit,) = one.given
        assert (submit.generated, submit.max_tokens, submit.prompt_ids[-5:]) == (5, 3, [1, 2, 3, 4, 5])
        assert begun.stream.decision is not None
        assert begun.stream.decision.reason == HAS_KV_CACHE
        await one.say(6, 7, end=DONE)
        answer = await read(begun)
        assert answer.tokens == [[1, 2, 3, 4, 5, 6, 7]]
        assert (begun.stream.migrations, begun.stream.retries) == (1, 0)
        assert [(status.faults, status.ejections) for status in world.fleet.statuses()] == [(0, 0)] * 4


async def test_the_leaders_own_answers_stay_where_they_are() -> None:
    async with world_of() as world:
        one, _ = world.replicas
        begun = await world.start(one, 1, 2)
        await world.merge()
        await one.say(3, end=DONE)
        answer = await read(begun)
        assert (answer.tokens, begun.stream.migrations) == ([[1, 2, 3]], 0)


async def test_what_has_no_token_yet_is_moved_too_and_costs_no_retry() -> None:
    async with world_of() as world:
        one, other = world.replicas
        while world.context.budget.take():
            pass
        world.fleet.drain({"p/0": float("inf")})
        task = asyncio.create_task(begin(world.fleet, submit_of(8), dispatch_context=world.context))
        await until(lambda: bool(other.given))
        world.fleet.drain({})
        await other.park(one, WHOLE)
        await until(lambda: bool(one.given))
        await one.say(1, end=DONE)
        begun = await task
        assert (await read(begun)).tokens == [[1]]
        assert (begun.stream.migrations, begun.stream.retries) == (1, 0)


async def test_an_answer_may_be_moved_more_often_than_it_may_lose_its_replica() -> None:
    async with world_of() as world:
        one, other = world.replicas
        tokens = [*range(1, 2 * MAX_MOVES + 3)]
        begun = await world.start(one, tokens[0], length=50)
        for number, token in enumerate(tokens[1:]):
            giver, taker = (other, one) if number % 2 else (one, other)
            await giver.move(taker)
            await until(partial(bool, taker.open))
            await taker.say(token)
        await taker.say(end=DONE)
        assert (await read(begun)).tokens == [tokens]
        assert begun.stream.migrations == len(tokens) - 1


async def test_a_taker_that_seems_to_be_parked_still_is_believed() -> None:
    async with world_of() as world:
        one, other = world.replicas
        await world.merge()
        begun = await world.start(one, 1, 2)
        # The taker's own word, on another connection, comes later.
        await one.move(other)
        await until(lambda: bool(other.given))
        assert world.states[1] is State.PARKED
        await world.split()
        await other.say(3, end=DONE)
        assert (await read(begun)).tokens == [[1, 2, 3]]


@pytest.mark.parametrize("moved_to", [0, 999])
async def test_what_nobody_has_goes_on_where_the_policy_says(moved_to: int) -> None:
    async with world_of() as world:
        one, other = world.replicas
        begun = await world.start(other, 1, 2)
        await other.say(end=Finish(FinishReason.ERROR, failure=Failure("moved", "", moved_to=moved_to)))
        await until(lambda: bool(one.given))
        await one.say(3, end=DONE)
        assert (await read(begun)).tokens == [[1, 2, 3]]


async def test_replicas_that_send_a_request_to_and_fro_do_not_do_so_for_ever() -> None:
    async with world_of() as world:
        one, other = world.replicas
        task = asyncio.create_task(begin(world.fleet, submit_of(8), dispatch_context=world.context))
        given = 0
        while not task.done() and given < 20:
            await until(lambda: one.given or other.given)
            given += 1
            giver, taker = (one, other) if one.given else (other, one)
            await giver.move(taker)
            await until(lambda: one.given or other.given or task.done())
        with pytest.raises(SequenceMoved):
            await task
        assert given == 2


async def test_next_to_nothing_of_a_moved_prompt_counts_as_to_be_computed() -> None:
    size = NARROW.kv_block_tokens
    prompt = list(range(size * 10 + 5))
    async with world_of() as world:
        one, other = world.replicas
        world.fleet.drain({"p/0": float("inf")})
        submit = submit_of(8, prompt=prompt)
        route = RouteRequest("r", len(prompt), 8)
        task = asyncio.create_task(dispatch(world.context, route, submit, RequestHandle()))
        await until(lambda: bool(other.given))
        world.fleet.drain({})
        await other.say(1, 2)
        begun = await task
        await other.move(one)
        await until(lambda: bool(one.given))
        (view, _) = world.fleet.candidates()
        assert view.sent_prompt_tokens == 5 + 2
        await one.say(end=DONE)
        assert (await read(begun)).tokens == [[1, 2]]


async def test_the_prefix_directory_keeps_what_is_true() -> None:
    size = NARROW.kv_block_tokens
    prompt = list(range(size * 4 + 1))
    chain = prefix_hashes(prompt, size)

    def held() -> dict[str, int]:
        return dict(world.prefixes.look_up(prompt).cached)

    async with world_of() as world:
        one, other = world.replicas
        await one.say(kv_update=KvUpdate(1, stored=chain[:2]))
        await other.say(kv_update=KvUpdate(1, stored=chain))
        await until(lambda: held() == {"p/0": 2 * size, "p/1": 4 * size})
        await world.merge()
        assert held() == {"p/0": 2 * size}
        await one.say(kv_update=KvUpdate(2, stored=chain[2:]))
        await until(lambda: held() == {"p/0": 4 * size})
        await world.split()
        assert held() == {"p/0": 4 * size}
        await other.say(kv_update=KvUpdate(2, stored=chain[:1]))
        await until(lambda: held() == {"p/0": 4 * size, "p/1": size})
        assert not any(up.kv_resync for replica in world.replicas for up in replica.ups)


async def test_a_worker_that_comes_later_sees_the_group_as_it_stands() -> None:
    async with group_of(2) as (replicas, addresses):
        one, other = replicas
        await one.serve(WHOLE)
        await other.park(one, WHOLE)
        async with seen(World(replicas, addresses)) as world:
            # A start does not wait for what is parked.
            await world.fleet.wait_tried(2)
            assert world.shapes == {"p/0": 2}
            assert world.states == [State.READY, State.PARKED]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"span": Span(0, 2)}, "shape is tp1, configured tp2"),
        ({"span": Span(1, 1)}, "GPU 0 of 2 is on the GPUs 1 to 1"),
        ({"span": Span(0, 4)}, "shape is tp1, configured tp4"),
        ({"span": Span(0, 0)}, "shape is tp1, configured tp0"),
        ({"state": MemberState.PARKED}, "it is parked, with GPU 0 of the span from GPU 0 on"),
        ({"group": "node-2"}, "it was on GPU 0 of node-1, and is now on GPU 0 of node-2"),
        ({"info": msgspec.structs.replace(NARROW, model="another")}, "model is another"),
    ],
)
async def test_what_cannot_be_ends_the_session(
    wrong: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world_of() as world:
        one = world.replicas[0]
        sound, sessions = one.membership, one.sessions
        await one.stand(**wrong)
        one.membership = msgspec.structs.replace(sound, revision=one.membership.revision + 1)
        await until(lambda: one.sessions > sessions)
        assert f"it says of its host group: {why}" in caplog.text


async def test_a_welcome_that_cannot_be_is_refused() -> None:
    async with group_of(2) as (replicas, addresses):
        replicas[0].membership = msgspec.structs.replace(replicas[0].membership, span=Span(0, 2))
        async with seen(World(replicas, addresses)) as world:
            await until(lambda: world.states[0] is State.REFUSED)
            assert "shape is tp1, configured tp2" in world.fleet.statuses()[0].reason


async def test_a_context_that_only_a_wide_replica_holds_is_no_mismatch() -> None:
    async with world_of(context=kv_tokens(2)) as world:
        assert world.shapes == {"p/0": 1, "p/1": 1}
    async with (
        group_of(2) as (replicas, addresses),
        seen(World(replicas, addresses, context=kv_tokens(2) + 1)) as world,
    ):
        await until(lambda: world.states == [State.REFUSED] * 2)
        assert f"max_sequence_tokens is {kv_tokens(2)}" in world.fleet.statuses()[0].reason


async def test_channels_may_bring_memberships_and_loads_in_any_order() -> None:
    async with world_of(channels=2, streams_per_channel=1) as world:
        one, _ = world.replicas
        begun = [await world.start(one, 1, name=name) for name in ("a", "b")]
        connection = world.fleet._connections["p/0"]
        await until(lambda: one.sessions == 2)
        before = one.membership
        await one.serve(WHOLE)
        await until(lambda: world.shapes["p/0"] == 2)
        # An older one, and a load of the earlier shape.
        await one.send_bytes_to(1, codec.encode_membership(before))
        await one.send_bytes_to(1, codec.encode_step(codec.Step(50, load=Load(kv_blocks_total=BLOCKS, steps=3))))
        await one.send_bytes_to(1, codec.encode_step(codec.Step(51, load=loads(one, running=5))))
        await until(lambda: connection.view.load.running == 5)
        assert world.shapes["p/0"] == 2
        assert world.states[0] is State.READY
        world.now += LATE_SECONDS
        await one.send_bytes_to(1, codec.encode_step(codec.Step(52, load=Load(kv_blocks_total=BLOCKS, steps=4))))
        await until(lambda: world.states[0] is State.EJECTED)
        for dispatched in begun:
            dispatched.stream.close()


def loads(replica: GroupedReplica, **load: int) -> Load:
    return Load(kv_blocks_total=replica.membership.info.kv_blocks_total, **load)  # type: ignore[arg-type]
