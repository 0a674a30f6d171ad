"""How a fleet judges replicas of host groups: what is parked or being changed is no fault of theirs."""

import msgspec
import pytest

import routing.transports.session_transport
from protos.errors import ReplicaUnavailable
from protos.reshape import MemberState, Span
from protos.types import Finish, FinishReason, Work
from routing.contracts.policy import Left, Report, RouteRequest
from routing.dispatch.dispatch_context import DispatchContext
from routing.health.patience import TICK_SECONDS
from routing.health.progress import IDLE_SECONDS
from routing.health.replica_pace import SLOW_SECONDS
from routing.health.replica_status import State
from routing.policies.round_robin import RoundRobin
from tests.grouped import kv_tokens
from tests.loops import until
from tests.routing.grouped_world import world_of
from tests.routing.mortal import read

DONE = Finish(FinishReason.STOP, 3, 0, 4)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.session_transport, "LAST_RETRY_SECONDS", 0.02)


class Watching(RoundRobin):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Report] = []

    def observe(self, report: Report) -> None:
        self.told.append(report)


async def test_a_parked_replica_is_neither_probed_nor_judged() -> None:
    async with world_of() as world:
        other = world.replicas[1]
        await world.merge()
        seen = len(other.ups)
        for _ in range(int(IDLE_SECONDS / TICK_SECONDS) + 2):
            world.fleet.tick()
        await until(lambda: world.fleet._connections["p/0"]._probe is None)
        assert [up for up in other.ups[seen:] if up.submits] == []
        assert world.states == [State.READY, State.PARKED]
        # The only one that serves is not ejected, for which the parked one does not make up.
        world.fleet._failing("p/0", "a test says so")
        assert world.states == [State.READY, State.PARKED]


async def test_a_drained_or_lost_replica_is_shown_as_such_although_it_is_parked() -> None:
    async with world_of() as world:
        one, other = world.replicas
        await world.merge()
        world.fleet.drain({"p/1": float("inf")})
        assert world.states == [State.READY, State.DRAINED]
        world.fleet.drain({})
        other.membership = msgspec.structs.replace(
            other.membership, state=MemberState.SERVING, span=Span(1, 1), served_by=0
        )
        other.epoch += 100
        # Its process has ended and is there again, on its own GPU; the other one serves its own again, too.
        await other.send_bytes(b"\xff")
        # It is probed as soon as it is connected, and its answer may come before this looks.
        await until(lambda: world.states[1] in (State.PROBING, State.RETURNING))
        assert world.fleet.statuses()[1].group is not None
        await one.serve(Span(0, 1))
        await until(lambda: world.shapes == {"p/0": 1, "p/1": 1})


async def test_slow_steps_of_a_change_are_no_fault() -> None:
    async with world_of(4) as world:
        slow = world.replicas[3]
        await slow.stand(state=MemberState.CHANGING)
        await until(lambda: world.fleet._connections["p/3"].reshapes)

        def seconds(count: int) -> None:
            for step in range(50 * count):
                for number in range(4):
                    us = 100_000 if number == 3 else 15_000
                    world.fleet._worked(f"p/{number}", Work(us, sequences=30, context=9000))
                world.now += 0.02
                if step % 25 == 0:
                    world.fleet.tick()

        seconds(2 * int(SLOW_SECONDS))
        assert world.states == [State.READY] * 4
        await slow.stand(state=MemberState.SERVING)
        await until(lambda: not world.fleet._connections["p/3"].reshapes)
        # It begins anew, and then is judged like any other.
        seconds(1)
        assert world.states == [State.READY] * 4
        seconds(2 * int(SLOW_SECONDS))
        assert world.states == [*[State.READY] * 3, State.EJECTED]


async def test_a_policy_forgets_what_it_has_learned_of_the_shape_before() -> None:
    async with world_of() as world:
        policy = Watching()
        context = DispatchContext(world.fleet, policy)
        assert context.fleet is world.fleet
        one = world.replicas[0]
        await one.stand(state=MemberState.PREPARED)
        await one.stand(state=MemberState.CHANGING)
        await until(lambda: world.fleet._connections["p/0"].reshapes)
        assert policy.told == []
        await world.merge()
        # Each says so on a connection of its own.
        assert sorted(policy.told, key=str) == [Left("p/0"), Left("p/1")]


async def test_statuses_tell_of_the_longest_answer_at_each_member() -> None:
    async with world_of() as world:
        one = world.replicas[0]
        begun = [await world.start(one, 1, name=name, length=length) for name, length in (("a", 8), ("b", 500))]
        assert [status.longest for status in world.fleet.statuses()] == [3 + 500, 0]
        await one.say(end=DONE)
        for dispatched in begun:
            await read(dispatched)
        assert [status.longest for status in world.fleet.statuses()] == [0, 0]


async def test_a_fleet_without_widths_waits_for_none() -> None:
    async with world_of() as world:
        for replica in world.replicas:
            await replica.stand(widths=())
        await until(lambda: world.fleet.wide_tokens == 0)
        assert world.fleet.narrow_tokens == 0


async def test_nobody_looks_for_the_longest_answer_where_no_shape_changes() -> None:
    async with world_of() as world:
        for replica in world.replicas:
            await replica.stand(widths=())
        await until(lambda: world.fleet.wide_tokens == 0)
        begun = await world.start(world.replicas[0], 1, length=500)
        assert [status.longest for status in world.fleet.statuses()] == [0, 0]
        # Launchers make other shapes of the model.
        world.fleet.launch(1000, 4000)
        assert [status.longest for status in world.fleet.statuses()] == [3 + 500, 0]
        begun.stream.close()


async def test_what_goes_on_does_so_only_where_it_fits() -> None:
    async with world_of() as world:
        route = RouteRequest("r", kv_tokens(1) + 1, 8)
        assert len(world.fleet.candidates()) == 2
        with pytest.raises(ReplicaUnavailable):
            world.context.choose(route, (), None)
        await world.merge()
        assert world.context.choose(route, (), None).replica.id == "p/0"
