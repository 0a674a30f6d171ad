import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import routing.transports.session_transport
from protos.errors import ClientGone, ReplicaUnavailable
from protos.types import Finish, FinishReason, Role
from replicas.engine import Delta
from routing.contracts.hedging_settings import Hedging
from routing.contracts.policy import Ended, Routed, RouteRequest
from routing.dispatch.dispatch import Dispatched, RequestHandle, dispatch
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.policies.round_robin import RoundRobin
from tests.fakes import SilentEngine, info_of
from tests.harness import serving, submit_of
from tests.loops import until
from tests.routing.fleets import fleet_at
from tests.routing.mortal import read
from tests.timers import HeldTimers

SOON = Hedging(after_ms=10, max_prompt_tokens=10)
SOON_SECONDS = 0.01
DONE = Finish(FinishReason.LENGTH)


@pytest.fixture(autouse=True)
def no_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)


class Listening(RoundRobin):
    def __init__(self) -> None:
        super().__init__()
        self.reports: list[Any] = []

    def observe(self, report: Any) -> None:
        self.reports.append(report)


@contextlib.asynccontextmanager
async def two(
    hedging: Hedging | None = SOON,
) -> AsyncIterator[tuple[DispatchContext, Listening, list[SilentEngine], list[Any]]]:
    engines, policy = [SilentEngine(), SilentEngine()], Listening()
    async with contextlib.AsyncExitStack() as stack:
        served = [await stack.enter_async_context(serving(engine)) for engine in engines]
        fleet = await stack.enter_async_context(fleet_at(*(address for _, address in served)))
        yield DispatchContext(fleet, policy, hedging=hedging), policy, engines, [server for server, _ in served]
        await until(lambda: not any(c.in_flight for c in fleet._connections.values()))
        assert len([r for r in policy.reports if isinstance(r, Routed)]) == len(
            [r for r in policy.reports if isinstance(r, Ended)]
        )


def ask(
    dispatch_context: DispatchContext, handle: RequestHandle | None = None, **options: Any
) -> "asyncio.Task[Dispatched]":
    submit = submit_of(3, **options)
    route = RouteRequest("r", len(submit.prompt_ids), 3, submit.sampling.n)
    return asyncio.create_task(dispatch(dispatch_context, route, submit, handle or RequestHandle()))


@pytest.mark.parametrize("winner", [0, 1])
@pytest.mark.parametrize("started", [True, False])
async def test_whichever_answers_first_goes_on_alone(winner: int, started: bool) -> None:
    async with two() as (dispatch_context, _, engines, _):
        task = ask(dispatch_context)
        await until(lambda: engines[0].submitted and engines[1].submitted)
        before = dispatch_context.budget._left
        engines[winner].say(Delta(1, 0, [7], cached_tokens=1 if started else None))
        dispatched = await task
        assert dispatched.stream.replica_id == f"p/{winner}"
        assert dispatched.stream.cached_tokens == int(started)
        loser = engines[1 - winner]
        await until(lambda: loser.cancelled == [1])
        loser.say(Delta(1, 0, [99]))
        engines[winner].say(Delta(1, 0, [8]))
        engines[winner].say(Delta(1, 0, [9]), finishes=[(1, 0, DONE)])
        assert (await read(dispatched)).tokens == [[7, 8, 9]]
        assert dispatch_context.budget._left < before + 1


async def test_both_at_once_are_one_answer() -> None:
    async with two() as (dispatch_context, _, engines, _):
        task = ask(dispatch_context, n=2)
        await until(lambda: engines[0].submitted and engines[1].submitted)
        for engine in engines:
            engine.say(Delta(1, 0, [7]), Delta(1, 1, [8]), finishes=[(1, 0, DONE), (1, 1, DONE)])
        assert (await read(await task, 2)).tokens == [[7], [8]]


@pytest.mark.parametrize("lost", [0, 1])
async def test_where_one_of_them_is_lost_the_other_goes_on(lost: int) -> None:
    async with two() as (dispatch_context, _, engines, servers):
        task = ask(dispatch_context)
        await until(lambda: engines[0].submitted and engines[1].submitted)
        await servers[lost].close()
        engines[1 - lost].say(Delta(1, 0, [7]), finishes=[(1, 0, DONE)])
        dispatched = await task
        assert (await read(dispatched)).tokens == [[7]]
        assert dispatched.stream.replica_id == f"p/{1 - lost}"


async def test_where_both_are_lost_the_request_is() -> None:
    async with two() as (dispatch_context, _, engines, servers):
        task = ask(dispatch_context)
        await until(lambda: engines[0].submitted and engines[1].submitted)
        for server in servers:
            await server.close()
        with pytest.raises(ReplicaUnavailable):
            await task


async def test_who_leaves_meanwhile_leaves_both() -> None:
    async with two() as (dispatch_context, _, engines, _):
        handle = RequestHandle()
        task = ask(dispatch_context, handle)
        await until(lambda: engines[0].submitted and engines[1].submitted)
        handle.fail(ClientGone("left"))
        with pytest.raises(ClientGone):
            await task
        await until(lambda: engines[0].cancelled and engines[1].cancelled)


async def not_hedged(dispatch_context: DispatchContext, engines: list[SilentEngine], **options: Any) -> None:
    with HeldTimers(SOON_SECONDS) as timers:
        task = ask(dispatch_context, **options)
        await until(lambda: engines[0].submitted)
        timers.go_off()
        assert dispatch_context.fleet._connections["p/1"].in_flight == 0
    engines[0].say(Delta(1, 0, [7]), finishes=[(1, 0, DONE)])
    await read(await task)


async def test_long_prompts_and_an_empty_budget_mean_one_attempt() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("routing.dispatch.retry_budget.PER_SECOND", 0.0)
        patch.setattr("routing.dispatch.retry_budget.PER_REQUEST", 0.0)
        async with two() as (dispatch_context, _, engines, _):
            await not_hedged(dispatch_context, engines, prompt=range(11))
        async with two(None) as (dispatch_context, _, engines, _):
            await not_hedged(dispatch_context, engines)
        async with two() as (dispatch_context, _, engines, _):
            while dispatch_context.budget.take():
                pass
            await not_hedged(dispatch_context, engines)


async def test_who_has_answered_in_time_is_not_hedged() -> None:
    with HeldTimers(SOON_SECONDS) as timers:
        async with two() as (dispatch_context, _, engines, _):
            task = ask(dispatch_context, delta_interval=0)
            await until(lambda: engines[0].submitted)
            assert timers.pending == 1
            engines[0].say(Delta(1, 0, [7], cached_tokens=0))
            dispatched = await task
            timers.go_off()
            assert dispatch_context.fleet._connections["p/1"].in_flight == 0
            dispatched.stream.close()


async def test_pairs_are_neither_hedged_nor_a_second_attempt() -> None:
    first, second = SilentEngine(info_of(role=Role.PREFILL)), SilentEngine(info_of(role=Role.DECODE))
    whole = SilentEngine()

    async def other_way(fleet: Fleet, engine: SilentEngine, policy: RoundRobin) -> None:
        task = ask(DispatchContext(fleet, policy, hedging=SOON))
        await until(lambda: engine.submitted)
        timers.go_off()
        assert sum(connection.in_flight for connection in fleet._connections.values()) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engine.cancelled)
        engine.submitted.clear()

    roles = [Role.PREFILL, Role.DECODE, Role.BOTH]
    async with contextlib.AsyncExitStack() as stack:
        addresses = [(await stack.enter_async_context(serving(engine)))[1] for engine in (first, second, whole)]
        fleet = await stack.enter_async_context(fleet_at(*addresses, roles=roles))
        policy, timers = RoundRobin(), stack.enter_context(HeldTimers(SOON_SECONDS))
        await other_way(fleet, first, policy)
        await other_way(fleet, whole, policy)
