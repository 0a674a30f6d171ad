import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import routing.transports.session_transport
from protos.errors import DeadlineExceeded, ReplicaFailed, ReplicaUnavailable
from protos.types import Failure, Finish, FinishReason, Handoff, Load, Role, Work
from replicas.engine import Delta
from routing.contracts.policy import Decision, Ended, NoCandidate, ReplicaView, RouteRequest, Stepped
from routing.dispatch.attempt import Attempt
from routing.dispatch.dispatch import Dispatched, RequestHandle, dispatch
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.failover_stream import LEAST_SECONDS
from routing.dispatch.migration import History
from routing.fleet.fleet import Fleet
from routing.health.breaker import CONSECUTIVE_FAULTS
from routing.health.replica_health import STEPPING_SECONDS
from routing.health.replica_status import State
from routing.policies.round_robin import RoundRobin
from routing.prefix.prefix_directory import PrefixDirectory
from tests.fakes import RefusesWith, SilentEngine, info_of
from tests.harness import TP2, serving, spec_of, submit_of
from tests.loops import until
from tests.routing.fleets import fleet_at

ROUTE = RouteRequest("r", 3, 8)


@pytest.fixture(autouse=True)
def no_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)


def view_of(name: str, role: Role = Role.BOTH) -> ReplicaView:
    return ReplicaView(name, "p", TP2, role, Load())


class PairAdmission:
    """A turn for a pair that remembers what it was told."""

    kv_tokens = 77

    def __init__(self, prefill: str, decode: str) -> None:
        self.decision: Decision | None = Decision(view_of(decode, Role.DECODE), view_of(prefill, Role.PREFILL))
        self.told: list[str] = []

    def opened(self, replica_id: str, *, computes: bool) -> None:
        self.told.append(replica_id if computes else f"{replica_id} takes over")

    def started(self) -> None:
        self.told.append("started")


@pytest.mark.parametrize(
    ("left", "tried"), [(-1.0, False), (LEAST_SECONDS / 2, False), (LEAST_SECONDS * 2, True), (float("inf"), True)]
)
async def test_nothing_is_tried_again_without_time_for_it(left: float, tried: bool) -> None:
    refusing, other = RefusesWith(Failure("draining", "no")), SilentEngine()
    async with serving(refusing) as (_, one), serving(other) as (_, two), fleet_at(one, two) as fleet:
        dispatch_context = DispatchContext(fleet, RoundRobin(), clock=lambda: 100.0)
        route = RouteRequest("r", 3, 8, deadline=100.0 + left)
        task = asyncio.create_task(dispatch(dispatch_context, route, submit_of(8), RequestHandle()))
        await until(lambda: task.done() or other.submitted)
        assert bool(other.submitted) == tried
        task.cancel()
        for result in await asyncio.gather(task, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError if tried else ReplicaUnavailable)
        await until(lambda: len(other.cancelled) == len(other.submitted))


async def test_a_policy_that_finds_no_candidate_is_a_fleet_without_any() -> None:
    class Picky(RoundRobin):
        def pick(self, request: RouteRequest, candidates: Any) -> Decision:
            raise NoCandidate("none will do")

    async with serving(SilentEngine()) as (_, address), fleet_at(address) as fleet:
        with pytest.raises(ReplicaUnavailable) as caught:
            await dispatch(DispatchContext(fleet, Picky()), ROUTE, submit_of(8), RequestHandle())
        assert caught.value.retry_after


async def test_a_turn_on_a_pair_is_followed_and_told_of_both_sides() -> None:
    first, second = SilentEngine(info_of(role=Role.PREFILL)), SilentEngine(info_of(role=Role.DECODE))
    roles = [Role.PREFILL, Role.DECODE]
    async with serving(first) as (_, one), serving(second) as (_, two), fleet_at(one, two, roles=roles) as fleet:
        admission = PairAdmission("p/0", "p/1")
        task = asyncio.create_task(
            dispatch(DispatchContext(fleet, RoundRobin()), ROUTE, submit_of(8), RequestHandle(), admission)
        )
        await until(lambda: first.submitted)
        views = {view.id: view for view in fleet.candidates()}
        assert (views["p/0"].sent_prompt_tokens, views["p/0"].sent_kv_tokens) == (3, 4)
        first.say(Delta(1, 0, [5], cached_tokens=0))
        dispatched = await task
        assert admission.told == ["p/0", "started"]
        first.say(finishes=[(1, 0, Finish(FinishReason.LENGTH, handoff=Handoff(b"", (5,))))])
        await until(lambda: second.submitted)
        assert admission.told == ["p/0", "started", "p/1 takes over"]
        views = {view.id: view for view in fleet.candidates()}
        assert (views["p/1"].sent_prompt_tokens, views["p/1"].sent_kv_tokens) == (0, 77)
        second.say(Delta(1, 0, [6]))
        await dispatched.stream.receive()
        dispatched.stream.close()
        await until(lambda: second.cancelled)


async def test_a_pair_of_which_one_side_is_gone_is_decided_anew() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        admission = PairAdmission("p/0", "p/9")
        task = asyncio.create_task(
            dispatch(DispatchContext(fleet, RoundRobin()), ROUTE, submit_of(8), RequestHandle(), admission)
        )
        await until(lambda: engine.submitted)
        assert engine.submitted[1].prefill_only is False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engine.cancelled)


class Prefixes(PrefixDirectory):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    def routed(self, replica_id: str, chain: Any) -> None:
        self.heard.append((replica_id, list(chain)))
        super().routed(replica_id, chain)

    def record_cached(self, replica_id: str, predicted_tokens: int, cached_tokens: int) -> None:
        self.heard.append((replica_id, predicted_tokens, cached_tokens))
        super().record_cached(replica_id, predicted_tokens, cached_tokens)


class Asking(RoundRobin):
    uses_prefixes = True

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Stepped] = []

    def observe(self, report: Any) -> None:
        if isinstance(report, Stepped):
            self.steps.append(report)


async def test_where_prompts_go_and_what_was_cached_of_them_is_told() -> None:
    engine, prefixes = SilentEngine(), Prefixes()
    async with serving(engine) as (_, address):
        fleet = Fleet([spec_of(address, id="p/0")], "test", prefixes)
        fleet.start()
        await fleet.wait_ready(1)
        try:
            dispatch_context = DispatchContext(fleet, Asking())
            prompt = list(range(70))
            found = dispatch_context.look_up(prompt, "acme")
            assert (len(found.chain), found.cached) == (2, {})
            route = RouteRequest("r", 70, 8, cached={"p/0": 64}, chain=found.chain)
            task = asyncio.create_task(dispatch(dispatch_context, route, submit_of(8, prompt=prompt), RequestHandle()))
            await until(lambda: engine.submitted)
            assert fleet.candidates()[0].sent_prompt_tokens == 6
            engine.say(Delta(1, 0, [5], cached_tokens=32))
            (await task).stream.close()
            assert prefixes.heard == [("p/0", list(found.chain)), ("p/0", 64, 32)]
            assert dispatch_context.cached(RouteRequest("r", 70, 8)) == {}
            await until(lambda: engine.cancelled)
        finally:
            await fleet.aclose()


async def test_a_policy_that_does_not_ask_is_spared_the_lookup() -> None:
    dispatch_context = DispatchContext(Fleet([], "test", PrefixDirectory()), RoundRobin())
    assert dispatch_context.look_up([1] * 100, "acme").chain == ()


async def test_a_policy_sees_what_engines_do() -> None:
    engine, policy = SilentEngine(), Asking()
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        DispatchContext(fleet, policy)
        engine.say(load=Load(steps=1), work=Work(10, 1, 1))
        await until(lambda: ("p/0", 10) in [(step.view.id, step.work.us) for step in policy.steps])


class Learner(RoundRobin):
    """Remembers the ends that it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Ended] = []

    def observe(self, report: Any) -> None:
        if isinstance(report, Ended):
            self.ends.append(report)


class StepLearner(Learner):
    steps_suffice = True


@pytest.mark.parametrize(
    ("policy", "max_num_tokens", "told"),
    [(Learner(), 0, True), (Learner(), 8192, True), (StepLearner(), 0, True), (StepLearner(), 8192, False)],
)
def test_a_policy_that_learns_from_steps_hears_of_ends_only_where_engines_report_none(
    policy: Learner, max_num_tokens: int, told: bool
) -> None:
    dispatch_context = DispatchContext(Fleet([], "test"), policy, clock=lambda: 7.0)
    decision = Decision(msgspec.structs.replace(view_of("a"), max_num_tokens=max_num_tokens))
    owner: Any = SimpleNamespace(tokens=[[1, 2, 3]])
    attempt = Attempt(owner, ROUTE, decision, submit_of(8), History())
    dispatch_context.ended(attempt, None)
    assert [(end.decision, end.output_tokens, end.seconds) for end in policy.ends] == [(decision, 3, 7.0)] * told


async def _answered(dispatch_context: DispatchContext) -> Dispatched:
    return await dispatch(dispatch_context, ROUTE, submit_of(8), RequestHandle())


async def test_a_fleet_hears_how_attempts_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, str]] = []
    monkeypatch.setattr(Fleet, "succeeded", lambda self, replica_id: heard.append((replica_id, "well")))
    monkeypatch.setattr(
        Fleet, "failed", lambda self, replica_id, error, *_, **__: heard.append((replica_id, type(error).__name__))
    )

    engine = SilentEngine()
    async with (
        serving(RefusesWith(Failure("engine_error", "boom"))) as (_, bad),
        serving(engine) as (_, good),
        fleet_at(bad, good) as fleet,
    ):
        task = asyncio.create_task(_answered(DispatchContext(fleet, RoundRobin())))
        await until(lambda: engine.submitted)
        assert heard == [("p/0", "ReplicaFailed")]
        engine.say(Delta(1, 0, [5]), finishes=[(1, 0, Finish(FinishReason.STOP))])
        (await task).stream.close()
        assert heard[1:] == [("p/1", "well")]
        task = asyncio.create_task(_answered(DispatchContext(fleet, RoundRobin())))
        await until(lambda: len(engine.submitted) == 2)
        engine.say(Delta(2, 0, [5]))
        dispatched = await task
        dispatched.stream.fail(ReplicaFailed("x"))
        dispatched.stream.close()
        assert heard[-1] == ("p/1", "ReplicaFailed")
        await until(lambda: engine.cancelled)


async def test_another_policy_may_decide_for_one_request() -> None:
    class Other(RoundRobin):
        def pick(self, request: RouteRequest, candidates: Any) -> Decision:
            return Decision(candidates[-1])

    engines = [SilentEngine(), SilentEngine()]
    async with serving(engines[0]) as (_, one), serving(engines[1]) as (_, two), fleet_at(one, two) as fleet:
        dispatch_context = DispatchContext(fleet, RoundRobin())
        task = asyncio.create_task(_answered(dispatch_context.explained(Other())))
        await until(lambda: engines[1].submitted)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engines[1].cancelled)


@pytest.mark.parametrize(("lasts", "state"), [(0.01, State.READY), (STEPPING_SECONDS, State.EJECTED)])
async def test_deadlines_that_leave_an_engine_no_time_say_nothing_of_it(lasts: float, state: State) -> None:
    now, engine = 100.0, SilentEngine()
    async with serving(engine) as (_, one), serving(SilentEngine()) as (_, two), fleet_at(one, two) as fleet:
        dispatch_context = DispatchContext(fleet, RoundRobin(), clock=lambda: now)
        for _ in range(CONSECUTIVE_FAULTS):
            handle, admission = RequestHandle(), PairAdmission("p/0", "p/0")
            admission.decision = Decision(view_of("p/0"))
            task = asyncio.create_task(dispatch(dispatch_context, ROUTE, submit_of(8), handle, admission))
            await until(engine.asked.is_set)
            engine.asked.clear()
            now += lasts
            handle.fail(DeadlineExceeded("the client's own"))
            with pytest.raises(DeadlineExceeded):
                await task
        assert fleet.statuses()[0].state is state
        await until(lambda: len(engine.cancelled) == CONSECUTIVE_FAULTS)


async def test_no_more_is_cached_than_there_is() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), fleet_at(address) as fleet:
        task = asyncio.create_task(_answered(DispatchContext(fleet, RoundRobin())))
        await until(lambda: engine.submitted)
        engine.say(Delta(1, 0, [5], cached_tokens=2**31), finishes=[(1, 0, Finish(FinishReason.STOP))])
        stream = (await task).stream
        assert stream.cached_tokens == ROUTE.prompt_tokens
        stream.close()
