"""Groups of replica servers in one process, with links of their own between them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import msgspec
import pytest

from protos import codec
from protos.join import JOIN_METHOD, Join, JoinKind, decode_join, encode_join
from protos.reshape import MemberState, ReshapeOrder, ReshapePhase, Span
from protos.types import Shape
from replicas.engines import kv_contents, reshapable_engine
from replicas.engines.reshapable_engine import ReshapableEngine
from replicas.groups.group_member import GroupOptions
from replicas.replica_server import ReplicaServer
from tests.harness import CORPUS, MODEL, answers_of, submit_of, worker_at
from tests.harness import engine_of as plain_engine
from tests.loops import until
from tests.reshaping import GROUP, Follower, orderer_of, spans


def engine_of(**options: Any) -> ReshapableEngine:
    fixed: dict[str, Any] = {"model": MODEL, "corpus": CORPUS, "shape": Shape(), "gpus": 4, "pace_seconds": 0.002}
    return ReshapableEngine(**(fixed | {"speed": 100.0} | options))


@contextlib.asynccontextmanager
async def group_of(gpus: int = 4, **options: Any) -> AsyncIterator[tuple[list[ReplicaServer], list[str]]]:
    """A group of narrow replicas: their servers and addresses."""
    servers, addresses = [], []
    try:
        for gpu in range(gpus):
            engine = engine_of(gpus=gpus, **options)
            server = ReplicaServer(engine, epoch=100 + gpu, group=GroupOptions(GROUP, gpus, Span(gpu, 1), engine))
            addresses.append(await server.start("127.0.0.1:0"))
            servers.append(server)
        yield servers, addresses
    finally:
        for server in servers:
            await server.close()


async def test_four_narrow_replicas_become_a_wide_one_and_back_while_they_answer() -> None:
    submits = [submit_of(1200, prompt=range(1, 200 + number)) for number in range(8)]
    whole = await answers_of(*submits)
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer, Follower(addresses) as follower:
        answers = [asyncio.create_task(follower.ask(submit)) for submit in submits]
        await until(lambda: sum(server.current_load().running for server in servers) == len(submits))
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []
        states = [one.now for one in orderer.watched]
        assert [m.state for m in states] == [MemberState.SERVING, *3 * [MemberState.PARKED]]
        assert [m.served_by for m in states] == [0, 100, 100, 100]
        assert {m.span for m in states} == {Span(0, 4)}
        assert states[0].info.shape == Shape(4)
        for server in servers[1:]:
            assert server.current_load().kv_blocks_used == 0
        await until(lambda: servers[0].current_load().running == len(submits))
        assert await orderer.run(spans(4), spans(1, 1, 1, 1)) == []
        assert [one.now.span for one in orderer.watched] == list(spans(1, 1, 1, 1))
        await until(lambda: all(server.current_load().running for server in servers))
        assert await asyncio.gather(*answers) == whole
        # Six were moved there, and six back; their whole blocks were found where they went.
        assert (follower.moves, follower.lost) == (12, 0)
        await until(lambda: all(server.current_load().kv_blocks_used == 0 for server in servers))
        assert all(server.current_load().kv_blocks_reserved == 0 for server in servers)


async def test_a_parked_replica_says_where_requests_have_gone() -> None:
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer:
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []
        async with worker_at(addresses[2]) as worker:
            welcome = await worker.hello()
            assert welcome.membership is not None
            assert (welcome.membership.state, welcome.membership.served_by) == (MemberState.PARKED, 100)
            await worker.send((1, submit_of(n=2)))
            await worker.finished(1, 2)
            failures = [finish.failure for finish in worker.finishes.values()]
            assert [(f.code, f.moved_to) for f in failures if f is not None] == [("moved", 100)] * 2
        assert servers[2].condition.startswith("Parked")
        assert servers[0].condition == "OK"


async def test_any_power_of_two_between() -> None:
    async with group_of() as (_, addresses), orderer_of(addresses) as orderer:
        for before, after in (
            (spans(1, 1), spans(2)),
            (spans(1, 1, start=2), spans(2, start=2)),
            (spans(2, 2), spans(4)),
            (spans(4), spans(2, 2)),
            (spans(2), spans(1, 1)),
            (spans(1, 1, 2), spans(4)),
            (spans(4), spans(1, 1, 2)),
        ):
            assert await orderer.run(before, after) == []
            assert {one.now.span for one in orderer.watched if not one.now.served_by} >= set(after)


async def test_a_wide_replica_that_loses_a_member_serves_its_own_gpu_again() -> None:
    submits = [submit_of(900, prompt=range(1, 100 + number)) for number in range(4)]
    whole = await answers_of(*submits)
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer, Follower(addresses) as follower:
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []
        answers = [asyncio.create_task(follower.ask(submit)) for submit in submits]
        await until(lambda: servers[0].current_load().running == 4)
        await servers[3].close()
        for one in orderer.watched[:3]:
            await one.until(lambda m: m.state is MemberState.SERVING and m.span.width == 1)
        assert orderer.watched[0].now.failure == "the replica of GPU 3 is lost"
        assert orderer.watched[1].now.failure == "who serves its GPU is lost"
        assert await asyncio.gather(*answers) == whole
        assert follower.lost >= 4
        assert servers[0].info.shape == Shape(1)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> "Gate":
    """Deals a block at a time, and stops in the middle."""
    gate = Gate()
    monkeypatch.setattr(kv_contents, "PIECE_BLOCKS", 1)
    monkeypatch.setattr(reshapable_engine, "next_turn", gate.next_turn)
    return gate


class Gate:
    """Where all that deal are held, once they have handled some pieces."""

    def __init__(self) -> None:
        self.opened, self.reached = asyncio.Event(), asyncio.Event()
        self.turns = 0

    async def next_turn(self) -> None:
        self.turns += 1
        if self.turns > 12:
            self.reached.set()
            await self.opened.wait()
        await asyncio.sleep(0)


@pytest.mark.parametrize(("before", "after"), [(spans(4), spans(1, 1, 1, 1)), (spans(1, 1, 1, 1), spans(4))])
async def test_an_abort_in_the_middle_of_dealing_leaves_all_as_it_was(
    gate: Gate, before: tuple[Span, ...], after: tuple[Span, ...]
) -> None:
    submits = [submit_of(1200, prompt=range(1, 200 + number)) for number in range(4)]
    whole = await answers_of(*submits)
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer, Follower(addresses) as follower:
        gate.opened.set()
        if before == spans(4):
            assert await orderer.run(after, before) == []
        answers = [asyncio.create_task(follower.ask(submit)) for submit in submits]
        await until(lambda: sum(server.current_load().running for server in servers) == 4)
        moves, gate.turns = follower.moves, 0
        gate.opened.clear()
        gate.reached.clear()
        change = asyncio.create_task(orderer.run(before, after, 60_000))
        await gate.reached.wait()
        await orderer.abort()
        assert "it was aborted" in await change
        gate.opened.set()
        assert {one.now.span for one in orderer.watched if not one.now.served_by} == set(before)
        # All that ran goes on where it was.
        assert (follower.moves, follower.lost) == (moves, 0)
        assert await orderer.run(before, after) == []
        assert await asyncio.gather(*answers) == whole
        await until(lambda: all(server.current_load().kv_blocks_used == 0 for server in servers))
        assert all(server.current_load().kv_blocks_reserved == 0 for server in servers)


async def test_a_loss_in_the_middle_of_dealing_leaves_each_with_its_own_gpu(gate: Gate) -> None:
    submits = [submit_of(900, prompt=range(1, 200 + number)) for number in range(4)]
    whole = await answers_of(*submits)
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer, Follower(addresses) as follower:
        gate.opened.set()
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []
        answers = [asyncio.create_task(follower.ask(submit)) for submit in submits]
        await until(lambda: servers[0].current_load().running == 4)
        gate.turns = 0
        gate.opened.clear()
        gate.reached.clear()
        change = asyncio.create_task(orderer.run(spans(4), spans(1, 1, 1, 1), 60_000))
        await gate.reached.wait()
        await servers[3].close()
        gate.opened.set()
        with pytest.raises(ExceptionGroup):
            await change
        for one in orderer.watched[:3]:
            await one.until(lambda m: m.state is MemberState.SERVING and m.span.width == 1)
        assert await asyncio.gather(*answers) == whole
        await until(lambda: all(server.current_load().kv_blocks_used == 0 for server in servers[:3]))
        assert all(server.current_load().kv_blocks_reserved == 0 for server in servers[:3])


async def test_what_is_no_part_of_a_cache_undoes_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async with group_of() as (_, addresses), orderer_of(addresses) as orderer, Follower(addresses) as follower:
        # One at each of them.
        await asyncio.gather(*(follower.ask(submit_of(4, prompt=range(200))) for _ in addresses))
        with monkeypatch.context() as broken:
            broken.setattr(kv_contents, "_ENCODER", msgspec.json.Encoder())
            failures = await orderer.run(spans(1, 1, 1, 1), spans(4))
        assert all("the engine has failed: what another engine has given" in failure for failure in failures)
        assert [one.now.span for one in orderer.watched] == list(spans(1, 1, 1, 1))
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []


async def test_workers_of_the_protocol_before_are_served_without_groups() -> None:
    async with group_of() as (_, addresses), orderer_of(addresses) as orderer, worker_at(addresses[0]) as old:
        welcome = await old.hello(version=4)
        assert (welcome.protocol_version, welcome.membership) == (4, None)
        await old.send((1, submit_of(5)))
        await old.finished(1)
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []
        with pytest.raises(grpc.aio.AioRpcError, match="the replica's shape has changed"):
            while True:
                await old.step(ack=False)
        async with worker_at(addresses[0]) as again:
            assert (await again.hello(version=4)).info.shape == Shape(4)
        async with worker_at(addresses[1]) as parked:
            with pytest.raises(grpc.aio.AioRpcError, match="Parked"):
                await parked.hello(version=4)


async def test_an_engine_that_cannot_change_says_so() -> None:
    servers, addresses = [], []
    for gpu in range(2):
        options = GroupOptions(GROUP, 2, Span(gpu, 1), None)
        servers.append(ReplicaServer(plain_engine(shape=Shape(1)), epoch=100 + gpu, group=options))
        addresses.append(await servers[-1].start("127.0.0.1:0"))
    async with orderer_of(addresses) as orderer:
        assert orderer.watched[0].now.widths == ()
        assert (
            await orderer.run(spans(1, 1), spans(2))
            == ["the engine simulated cannot change its shape while it serves"] * 2
        )
    for server in servers:
        await server.close()


async def test_an_engine_that_says_done_and_is_not_is_alone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer:
        engine = servers[0]._engine
        monkeypatch.setattr(engine, "become", lambda *_: None)
        failures = await orderer.run(spans(1, 1, 1, 1), spans(4))
        assert "the engine should be TP4, and is TP1" in failures
        assert [one.now.span for one in orderer.watched] == list(spans(1, 1, 1, 1))
        assert {one.now.state for one in orderer.watched} == {MemberState.SERVING}


@pytest.mark.parametrize("gpu", [0, 2])
async def test_an_engine_that_fails_to_go_on_is_alone_again(monkeypatch: pytest.MonkeyPatch, gpu: int) -> None:
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer, Follower(addresses) as follower:
        become: Any = servers[gpu]._engine.become  # type: ignore[attr-defined]
        errors = [RuntimeError("out of memory")]

        def fail(*arguments: Any) -> None:
            if errors:
                raise errors.pop()
            become(*arguments)

        answers = [asyncio.create_task(follower.ask(submit_of(900, prompt=range(200 + n)))) for n in range(4)]
        await until(lambda: sum(server.current_load().running for server in servers) == 4)
        with monkeypatch.context() as broken:
            broken.setattr(servers[gpu]._engine, "become", fail)
            await orderer.run(spans(1, 1, 1, 1), spans(4))
            await orderer.watched[gpu].until(lambda m: m.failure == "the engine has failed: out of memory")
            for one in orderer.watched:
                await one.until(lambda m: m.state is MemberState.SERVING and m.span.width == 1)
        assert all(len(answer) == 900 for answer in await asyncio.gather(*answers))
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []


async def test_an_engine_that_fails_while_it_moves_undoes_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: object, width: int) -> None:
        raise RuntimeError("out of memory")

    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer:
        monkeypatch.setattr(servers[1]._engine, "reach", fail.__get__(servers[1]._engine))
        failures = await orderer.run(spans(1, 1, 1, 1), spans(4))
        assert set(failures) == {"the engine has failed: out of memory"}
        monkeypatch.undo()
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []


async def test_an_order_at_a_replica_in_no_group_ends_the_session() -> None:
    server = ReplicaServer(plain_engine())
    address = await server.start("127.0.0.1:0")
    order = ReshapeOrder(1, ReshapePhase.PREPARE, GROUP, spans(1, 1), spans(2), ())
    async with worker_at(address) as worker:
        await worker.hello()
        await worker.write(codec.encode_order(order))
        with pytest.raises(grpc.aio.AioRpcError, match="this replica is in no host group"):
            while True:
                await worker.step(ack=False)
    await server.close()


@pytest.mark.parametrize("first", [b"\xff\xff", b"", encode_join(Join(JoinKind.HELLO, 1, group="other"))])
async def test_a_link_begins_with_a_hello_of_the_group(first: bytes) -> None:
    async with group_of() as (_, addresses), grpc.aio.insecure_channel(addresses[0]) as channel:
        call: Any = channel.stream_stream(JOIN_METHOD)()
        await call.write(first)
        with pytest.raises(grpc.aio.AioRpcError, match="a link begins with a hello of group host-1"):
            await call.read()


async def test_a_link_that_nobody_expects_is_turned_away_by_name() -> None:
    async with group_of() as (_, addresses), grpc.aio.insecure_channel(addresses[0]) as channel:
        call: Any = channel.stream_stream(JOIN_METHOD)()
        await call.write(encode_join(Join(JoinKind.HELLO, 7, group=GROUP, gpu=1, epoch=9)))
        answer = decode_join(await call.read())
        assert (answer.kind, answer.failure) == (JoinKind.FAILED, "change 7 is not under way here")
        assert await call.read() is grpc.aio.EOF


async def test_a_peer_that_falls_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicas.groups.link.BEAT_SECONDS", 0.05)
    async with group_of() as (servers, addresses), orderer_of(addresses) as orderer:
        assert await orderer.run(spans(1, 1, 1, 1), spans(4)) == []
        group = servers[2]._group
        assert group is not None
        (link,) = group._links.values()
        monkeypatch.setattr(link, "_unsent", NothingLeaves())
        await orderer.watched[0].until(lambda m: m.span == Span(0, 1))
        assert orderer.watched[0].now.failure == "the replica of GPU 2 is lost"
        for one in orderer.watched:
            await one.until(lambda m: m.state is MemberState.SERVING)


class NothingLeaves:
    """A queue of which nothing is ever sent."""

    def append(self, message: object) -> None:
        """Forget it."""

    def __bool__(self) -> bool:
        return False
