import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import routing.transports.session_transport
from protos.errors import ClientGone, ReplicaDraining, ReplicaFailed, ReplicaUnavailable
from protos.types import Failure, Finish, FinishReason, Handoff, Role, Timing
from replicas.engine import Delta, Engine
from routing.dispatch.disaggregated import ORPHAN_SECONDS, PREFILL_SECONDS, TRANSFER_SECONDS
from routing.dispatch.dispatch import RequestHandle
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.policies.round_robin import RoundRobin
from tests.fakes import RefusesWith, SilentEngine, info_of
from tests.harness import gated_engine, serving, submit_of, tokens_in
from tests.loops import until
from tests.routing.fleets import fleet_at
from tests.routing.mortal import DRAINED, FAILED, LOST, Death, begin, mortals, read, whole_answer
from tests.timers import HeldTimers

PREFILL, DECODE, BOTH = Role.PREFILL, Role.DECODE, Role.BOTH
PAIR = (PREFILL, DECODE)
WAYS = [LOST, FAILED, DRAINED]


@pytest.fixture(autouse=True)
def no_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)


@contextlib.asynccontextmanager
async def fleet_of(*engines: tuple[Engine, Role]) -> AsyncIterator[Fleet]:
    async with contextlib.AsyncExitStack() as stack:
        addresses = [(await stack.enter_async_context(serving(engine)))[1] for engine, _ in engines]
        yield await stack.enter_async_context(fleet_at(*addresses, roles=[role for _, role in engines]))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 3},
        {"n": 2, "logprobs": 2},
        {"delta_interval": 4},
        {"n": 2, "delta_interval": 0},
        {"ignore_eos": False},
        {"max_tokens": 1},
        {"max_tokens": 2, "n": 3},
        {"output_tokens": 1, "ignore_eos": False, "n": 2},
        # Some of these answers end with their first token, so that the handoff of all is of no use.
        {"n": 4, "stop_token_ids": tuple(range(10, 150))},
    ],
    ids=str,
)
async def test_a_pair_answers_as_one_replica_does(fields: dict[str, Any]) -> None:
    options = {key: fields[key] for key in fields if key == "output_tokens"}
    rest = {key: fields[key] for key in fields if key not in ("output_tokens", "max_tokens")}
    submit = submit_of(fields.get("max_tokens", 12), prompt=range(70), **rest)
    expected = await whole_answer(submit, **options)
    async with mortals(Death(), Death(), roles=PAIR, **options) as (fleet, engines):
        answer = await read(await begin(fleet, submit), submit.sampling.n)
        assert answer.tokens == expected.tokens
        assert answer.logprobs == expected.logprobs
        assert [f.reason for f in answer.finishes] == [f.reason for f in expected.finishes]
        assert all(request.prefill_only for request in engines[0].submitted)
        assert all(request.handoff is not None for request in engines[1].submitted)
        await until(lambda: not engines[0].open | engines[1].open)


async def test_what_is_told_is_of_both_sides() -> None:
    first, second = SilentEngine(info_of(role=PREFILL)), SilentEngine(info_of(role=DECODE))
    async with fleet_of((first, PREFILL), (second, DECODE)) as fleet:
        task = asyncio.create_task(begin(fleet, submit_of(3)))
        await until(lambda: first.submitted)
        assert (first.submitted[1].max_tokens, first.submitted[1].prefill_only) == (3, True)
        first.say(Delta(1, 0, [5], cached_tokens=2))
        dispatched = await task
        assert dispatched.first == [(0, (5,), None, None)]
        handoff = Handoff(b"state", (5,))
        ended = Finish(FinishReason.LENGTH, 3, 2, 1, Timing(10, 200, 0), handoff=handoff)
        first.say(finishes=[(1, 0, ended)])
        await until(lambda: second.submitted)
        assert second.submitted[1].handoff == handoff
        second.say(Delta(1, 0, [6]), Delta(1, 0, [7]))
        second.say(finishes=[(1, 0, Finish(FinishReason.STOP, 3, 0, 3, Timing(1, 30, 4000)))])
        answer = await read(dispatched)
        assert answer.tokens == [[5, 6, 7]]
        assert answer.finishes == [Finish(FinishReason.STOP, 3, 2, 3, Timing(41, 200, 4000))]
        assert dispatched.stream.cached_tokens == 2


@pytest.mark.parametrize(("firsts", "logprobs"), [((5,), None), ((), None)])
async def test_first_tokens_that_only_the_handoff_has_are_given_too(firsts: tuple[int, ...], logprobs: None) -> None:
    first, second = SilentEngine(info_of(role=PREFILL)), SilentEngine(info_of(role=DECODE))
    async with fleet_of((first, PREFILL), (second, DECODE)) as fleet:
        task = asyncio.create_task(begin(fleet, submit_of(3)))
        await until(lambda: first.submitted)
        ended = Finish(FinishReason.LENGTH, handoff=Handoff(b"state", firsts))
        first.say(finishes=[(1, 0, ended)])
        if firsts:
            assert (await task).first == [(0, (5,), None, None)]
            (await task).stream.close()
            await until(lambda: second.submitted)
            second.say(Delta(1, 0, [6]))
            await until(lambda: second.cancelled)
        else:
            with pytest.raises(ReplicaFailed):
                await task
            assert second.submitted == {}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("prefill", "decode"),
    [(0, None), (None, 0), (None, 1), (None, 5), (1, None), (2, None)],
    ids=["prefill at once", "decode at once", "decode soon", "decode later", "prefill soon", "prefill later"],
)
@pytest.mark.parametrize("others", [PAIR, (BOTH,)], ids=["another pair", "colocated"])
async def test_a_side_that_goes_away_is_not_seen(
    way: str, prefill: int | None, decode: int | None, others: tuple[Role, ...]
) -> None:
    submit = submit_of(20, n=2, logprobs=1)
    expected = await whole_answer(submit)
    deaths = [Death(prefill, way), Death(decode, way), *[Death()] * len(others)]
    async with mortals(*deaths, roles=[*PAIR, *others]) as (fleet, engines):
        answer = await read(await begin(fleet, submit), 2)
        assert (answer.tokens, answer.logprobs) == (expected.tokens, expected.logprobs)
        await until(lambda: not any(engine.open for engine in engines if not engine.dead.is_set()))


async def test_a_decode_side_that_refuses_sends_the_request_elsewhere() -> None:
    submit = submit_of(9)
    expected = await whole_answer(submit)
    prefill, gate = gated_engine(role=PREFILL)
    gate.open()
    other, open_gate = gated_engine()
    open_gate.open()
    refusing = RefusesWith(Failure("draining", "no"), info_of(role=DECODE))
    async with fleet_of((prefill, PREFILL), (refusing, DECODE), (other, BOTH)) as fleet:
        dispatched = await begin(fleet, submit)
        assert (await read(dispatched)).tokens == expected.tokens
        assert dispatched.stream.replica_id == "p/2"


async def test_a_pair_without_others_ends_with_what_happened() -> None:
    async with mortals(Death(), Death(0), roles=PAIR) as (fleet, engines):
        with pytest.raises(ReplicaUnavailable):
            await read(await begin(fleet, submit_of(9)))
        assert not engines[0].open


async def test_before_the_handoff_the_prefill_is_cancelled_at_once() -> None:
    first, second = SilentEngine(info_of(role=PREFILL)), SilentEngine(info_of(role=DECODE))
    async with fleet_of((first, PREFILL), (second, DECODE)) as fleet:
        handle = RequestHandle()
        task = asyncio.create_task(begin(fleet, submit_of(9), handle))
        await until(lambda: first.submitted)
        handle.fail(ClientGone("left"))
        with pytest.raises(ClientGone):
            await task
        await until(lambda: first.cancelled)
        assert second.submitted == {}


@contextlib.asynccontextmanager
async def handed_over(*more: tuple[Engine, Role]) -> AsyncIterator[tuple[Any, SilentEngine, Fleet]]:
    """A request between its handoff and the decode side's first token."""
    first, second = SilentEngine(info_of(role=PREFILL)), SilentEngine(info_of(role=DECODE))
    async with fleet_of((first, PREFILL), (second, DECODE), *more) as fleet:
        task = asyncio.create_task(begin(fleet, submit_of(9)))
        await until(lambda: first.submitted)
        ended = Finish(FinishReason.LENGTH, handoff=Handoff(b"state", (5,)))
        first.say(Delta(1, 0, [5]), finishes=[(1, 0, ended)])
        dispatched = await task
        await until(lambda: second.submitted)
        yield dispatched, second, fleet


@pytest.mark.parametrize("sign", ["token", "start", "finish", "lost"])
async def test_after_the_handoff_the_decode_side_is_cancelled_once_it_has_the_cache(sign: str) -> None:
    async with handed_over() as (dispatched, second, fleet):
        dispatched.stream.close()
        dispatched.stream.close()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert second.cancelled == []
        if sign == "token":
            second.say(Delta(1, 0, [6]))
        elif sign == "start":
            second.say(Delta(1, 0, [6], cached_tokens=0))
        elif sign == "finish":
            second.say(finishes=[(1, 0, Finish(FinishReason.STOP))])
        else:
            fleet._connections["p/1"].fail_streams(ReplicaDraining("drained"))
        if sign != "finish":
            await until(lambda: second.cancelled == [1])
        await until(lambda: not any(c.in_flight for c in fleet._connections.values()))


async def test_a_cache_that_arrives_too_late_is_not_waited_for() -> None:
    other = SilentEngine()
    with HeldTimers(TRANSFER_SECONDS) as transfers, HeldTimers(ORPHAN_SECONDS) as orphans:
        async with handed_over((other, BOTH)) as (dispatched, second, _):
            transfers.go_off()
            await until(lambda: other.submitted)
            assert (other.submitted[1].prompt_ids, other.submitted[1].generated) == ([1, 2, 3, 5], 1)
            assert second.cancelled == []
            orphans.go_off()
            await until(lambda: second.cancelled)
            dispatched.stream.close()
            await until(lambda: other.cancelled)


async def test_a_cache_that_has_arrived_is_not_late() -> None:
    with HeldTimers(TRANSFER_SECONDS) as transfers:
        async with handed_over() as (dispatched, second, _):
            second.say(Delta(1, 0, [6]))
            while 6 not in tokens_in(dispatched.first):
                dispatched.first.extend(await dispatched.stream.receive())
            transfers.go_off()
            second.say(Delta(1, 0, [7]), finishes=[(1, 0, Finish(FinishReason.STOP))])
            assert (await read(dispatched)).tokens == [[5, 6, 7]]


async def test_a_prompt_that_takes_too_long_is_computed_elsewhere() -> None:
    first, other = SilentEngine(info_of(role=PREFILL)), SilentEngine()
    with HeldTimers(PREFILL_SECONDS) as prefills:
        async with fleet_of((first, PREFILL), (SilentEngine(info_of(role=DECODE)), DECODE), (other, BOTH)) as fleet:
            task = asyncio.create_task(begin(fleet, submit_of(9)))
            await until(lambda: first.submitted)
            prefills.go_off()
            await until(lambda: other.submitted and first.cancelled)
            other.say(Delta(1, 0, [5]))
            (await task).stream.close()


async def test_whole_requests_never_go_to_one_side_alone() -> None:
    for role in PAIR:
        async with mortals(Death(), roles=[role]) as (fleet, engines):
            with pytest.raises(ReplicaUnavailable) as caught:
                await begin(fleet, submit_of(9))
            assert caught.value.retry_after
            assert engines[0].submitted == []


@settings(max_examples=30, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    deaths=st.lists(
        st.builds(Death, st.one_of(st.none(), st.integers(0, 8)), st.sampled_from([LOST, DRAINED])),
        min_size=4,
        max_size=4,
    ),
    roles=st.permutations([*PAIR, *PAIR]),
    n=st.integers(1, 3),
    interval=st.integers(0, 2),
)
async def test_whichever_sides_die_the_answer_is_that_of_a_fleet_where_none_does(
    deaths: list[Death], roles: list[Role], n: int, interval: int
) -> None:
    submit = submit_of(14, n=n, delta_interval=interval, ignore_eos=False)
    expected = await whole_answer(submit, output_tokens=9)
    # Two of them at most: the bounds on attempts are tested elsewhere.
    alive = [death if number < 2 else Death() for number, death in enumerate(deaths)]
    async with mortals(*alive, Death(), roles=[*roles, BOTH], output_tokens=9) as (fleet, engines):
        answer = await read(await begin(fleet, submit, dispatch_context=DispatchContext(fleet, RoundRobin())), n)
        assert answer.tokens == expected.tokens
        await until(lambda: not any(engine.open for engine in engines if not engine.dead.is_set()))
