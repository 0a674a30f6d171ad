import asyncio
import contextlib
from typing import Any

import pytest

import routing.transports.session_transport
from protos.errors import (
    ClientGone,
    ContextLengthExceeded,
    DeadlineExceeded,
    PenstockError,
    ReplicaFailed,
    ReplicaUnavailable,
    UnsupportedParameter,
)
from protos.types import Failure, Finish, FinishReason, Load, Role
from routing.contracts.policy import Decision, ReplicaView, RouteRequest
from routing.dispatch.attempt import error_of
from routing.dispatch.dispatch import Dispatched, RequestHandle, dispatch
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.policies.round_robin import RoundRobin
from tests.fakes import DiesAfter, DropsStream, RefusesWith, SilentEngine
from tests.harness import TP2, answers_of, drained, engine_of, gated_engine, serving, submit_of, tokens_in
from tests.loops import until
from tests.routing.fleets import fleet_at

ROUTE = RouteRequest("r", 3, 8)


@pytest.fixture(autouse=True)
def slow_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    # A session that is lost stays lost for the test.
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)


async def start(
    fleet: Fleet, handle: RequestHandle | None = None, admission: "SpyAdmission | None" = None, **options: Any
) -> Dispatched:
    dispatch_context = DispatchContext(fleet, RoundRobin())
    return await dispatch(dispatch_context, ROUTE, submit_of(8, **options), handle or RequestHandle(), admission)


class SpyAdmission:
    """A turn for one replica that remembers what it was told."""

    kv_tokens = 77

    def __init__(self, replica_id: str | None) -> None:
        view = None if replica_id is None else ReplicaView(replica_id, "p", TP2, Role.BOTH, Load())
        self.decision = None if view is None else Decision(view)
        self.told: list[str] = []

    def opened(self, replica_id: str, *, computes: bool) -> None:
        assert computes
        self.told.append(replica_id)

    def started(self) -> None:
        self.told.append("started")


async def test_a_request_is_answered_by_the_picked_replica() -> None:
    async with serving(engine_of()) as (_, address), fleet_at(address) as fleet:
        dispatched = await start(fleet)
        rest = [] if dispatched.first[-1][3] else (await drained(dispatched.stream))[0][0]
        assert [tokens_in(dispatched.first) + rest] == await answers_of(submit_of(8))
        assert dispatched.stream.replica_id == "p/0"
        assert dispatched.fingerprint == "simulated-mixtral-8x7b-tp2"
        dispatched.stream.close()


async def test_no_replica_is_an_error_of_its_own() -> None:
    with pytest.raises(ReplicaUnavailable) as caught:
        await start(Fleet([], "test"))
    assert caught.value.retry_after


async def test_a_replica_lost_before_its_first_event_costs_the_client_nothing() -> None:
    async with (
        DropsStream().listening() as broken,
        serving(DiesAfter(0)) as (_, dying),
        serving(engine_of()) as (_, good),
        fleet_at(broken, dying, good) as fleet,
    ):
        dispatched = await start(fleet)
        assert dispatched.stream.replica_id == "p/2"
        dispatched.stream.close()


async def test_a_drained_replica_that_still_looked_ready_is_passed_over() -> None:
    refusing = RefusesWith(Failure("draining", "the replica is draining"))
    async with (
        serving(refusing) as (_, first),
        serving(engine_of()) as (_, second),
        fleet_at(first, second) as fleet,
    ):
        dispatched = await start(fleet)
        assert dispatched.stream.replica_id == "p/1"
        assert len(refusing.submitted) == 1
        dispatched.stream.close()


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("context_length_exceeded", "too long", "messages"), ContextLengthExceeded),
        (Failure("unsupported_parameter", "no top_k here", "top_k"), UnsupportedParameter),
    ],
)
async def test_a_refusal_of_the_request_itself_is_final(failure: Failure, kind: type[PenstockError]) -> None:
    engines = [RefusesWith(failure), RefusesWith(failure)]
    async with serving(engines[0]) as (_, one), serving(engines[1]) as (_, two), fleet_at(one, two) as fleet:
        with pytest.raises(kind) as caught:
            await start(fleet, n=2)
        assert caught.value.param == failure.param
        assert failure.message in caught.value.detail
        assert failure.message not in caught.value.message
        assert [len(engine.submitted) for engine in engines] == [1, 0]


@pytest.mark.parametrize(
    ("failure", "kind", "tried"),
    [
        # One that is drained is nobody's fault: as many as there are, each once.
        (Failure("draining", "boom"), ReplicaUnavailable, [1, 1, 1, 1, 1]),
        # A request that may be what kills engines gets no third one.
        (Failure("engine_error", "boom"), ReplicaFailed, [1, 1, 0, 0, 0]),
    ],
)
async def test_attempts_are_bounded_and_no_replica_is_tried_twice(
    failure: Failure, kind: type[PenstockError], tried: list[int]
) -> None:
    engines = [RefusesWith(failure) for _ in range(5)]
    async with contextlib.AsyncExitStack() as stack:
        addresses = [(await stack.enter_async_context(serving(engine)))[1] for engine in engines]
        fleet = await stack.enter_async_context(fleet_at(*addresses))
        with pytest.raises(kind) as caught:
            await start(fleet)
        assert "boom" not in caught.value.message
        assert [len(engine.submitted) for engine in engines] == tried


async def test_the_only_replicas_failure_is_what_the_client_learns() -> None:
    async with serving(RefusesWith(Failure("engine_error", "boom"))) as (_, address), fleet_at(address) as fleet:
        with pytest.raises(ReplicaFailed):
            await start(fleet)


@pytest.mark.parametrize("before", [True, False])
async def test_an_attempt_that_fails_from_outside_ends_upstream_too(before: bool) -> None:
    engine, handle = SilentEngine(), RequestHandle()
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        if before:
            handle.fail(ClientGone("left"))
        task = asyncio.create_task(start(fleet, handle))
        if not before:
            await until(lambda: engine.submitted)
            assert not handle.failed
            handle.fail(ClientGone("left"))
        with pytest.raises(ClientGone):
            await task
        assert handle.failed
        await until(lambda: engine.cancelled == list(engine.submitted))


async def test_a_deadline_is_not_a_reason_to_try_another() -> None:
    engines, handle = [SilentEngine(), SilentEngine()], RequestHandle()
    async with serving(engines[0]) as (_, one), serving(engines[1]) as (_, two), fleet_at(one, two) as fleet:
        task = asyncio.create_task(start(fleet, handle))
        await until(lambda: engines[0].submitted)
        handle.fail(DeadlineExceeded("too long"))
        with pytest.raises(DeadlineExceeded):
            await task
        assert engines[1].submitted == {}


async def test_a_cancelled_task_leaves_no_stream() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        task = asyncio.create_task(start(fleet, n=2))
        await until(lambda: engine.submitted)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engine.cancelled)


@pytest.mark.parametrize("interval", [0, 1])
async def test_the_first_attempt_goes_where_the_turn_was_given(interval: int) -> None:
    async with serving(engine_of()) as (_, one), serving(engine_of()) as (_, two), fleet_at(one, two) as fleet:
        for replica_id in ("p/1", "p/1", "p/0"):
            admission = SpyAdmission(replica_id)
            dispatched = await start(fleet, admission=admission, n=2, delta_interval=interval)
            assert dispatched.stream.replica_id == replica_id
            assert admission.told == [replica_id, "started"]
            dispatched.stream.close()


async def test_a_turn_learns_that_the_prompt_was_computed_before_there_are_tokens() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        admission, other = SpyAdmission("p/0"), SpyAdmission("p/0")
        gathering = asyncio.create_task(start(fleet, admission=admission, delta_interval=0))
        streaming = asyncio.create_task(start(fleet, admission=other))
        await until(lambda: other.told)
        gate.let(1)
        await until(lambda: admission.told == ["p/0", "started"])
        assert not gathering.done()
        gate.open()
        for task in (gathering, streaming):
            (await task).stream.close()


async def test_what_a_turn_expects_counts_in_the_replicas_view() -> None:
    engine, admission = SilentEngine(), SpyAdmission("p/0")
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        task = asyncio.create_task(start(fleet, admission=admission))
        await until(lambda: admission.told)
        assert fleet.candidates()[0].sent_kv_tokens == admission.kv_tokens
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engine.cancelled)


async def test_where_the_turns_replica_is_gone_or_fails_the_policy_picks_the_next() -> None:
    async with (
        serving(RefusesWith(Failure("draining", "no"))) as (_, refusing),
        serving(engine_of()) as (_, good),
        fleet_at(refusing, good) as fleet,
    ):
        for named, told in (("p/0", ["p/0", "p/1", "started"]), ("p/9", None), (None, None)):
            admission = SpyAdmission(named)
            dispatched = await start(fleet, admission=admission)
            assert dispatched.stream.replica_id == "p/1"
            assert admission.told[-2:] == ["p/1", "started"]
            assert told is None or admission.told == told
            dispatched.stream.close()


def test_an_attempt_reaches_whatever_is_waited_for() -> None:
    class Queue:
        failed = False

        def fail(self, error: PenstockError) -> None:
            self.failed = True

    handle, first, second, third = RequestHandle(), Queue(), Queue(), Queue()
    handle.follow(first)
    handle.follow(second)
    assert not handle.failed
    handle.fail(ClientGone("left"))
    handle.follow(third)
    assert (first.failed, second.failed, third.failed, handle.failed) == (False, True, True, True)


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.ERROR])
def test_a_finish_that_is_no_answer_is_an_error(reason: FinishReason) -> None:
    assert isinstance(error_of(Finish(reason)), ReplicaFailed)


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
def test_a_finish_that_is_an_answer_is_none(reason: FinishReason) -> None:
    assert error_of(Finish(reason)) is None
