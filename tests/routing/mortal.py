"""Replicas that die when a test says so, after so many engine steps with tokens, and requests that must survive it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from protos.features import Feature
from protos.types import Finish, Role, Submit
from replicas.engine import EngineStep
from replicas.engines.simulated import SimulatedEngine
from replicas.replica_server import ReplicaServer
from routing.contracts.policy import RouteRequest
from routing.contracts.transport import Event
from routing.dispatch.dispatch import Dispatched, RequestHandle, dispatch
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.policies.round_robin import RoundRobin
from tests.harness import engine_of, serving
from tests.loops import until
from tests.routing.fleets import fleet_at

#: How a replica dies: its process is gone, its engine is lost or says nothing more, or an operator drains it.
LOST, FAILED, HUNG, DRAINED = "lost", "failed", "hung", "drained"


@dataclass
class Death:
    """After so many steps that had tokens or finishes; `None`: never."""

    steps: int | None = None
    way: str = LOST


class Mortal:
    """A simulated engine that keeps to a `Death`; what it still had to say is never said."""

    def __init__(self, death: Death, lacks: Feature = Feature.NONE, **options: Any) -> None:
        """`lacks` are features that it does not announce, as one of an older version."""
        self._engine: SimulatedEngine = engine_of(**options)
        self._death = death
        info = self._engine.info
        self.info = msgspec.structs.replace(info, features=info.features & ~lacks)
        self.submitted: list[Submit] = []
        self.open: set[int] = set()
        self.dead = asyncio.Event()

    def submit(self, handle: int, request: Submit) -> None:
        self.submitted.append(request)
        self.open.add(handle)
        self._engine.submit(handle, request)

    def cancel(self, handle: int) -> None:
        self.open.discard(handle)
        self._engine.cancel(handle)

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        steps = 0

        def until_death(step: EngineStep) -> None:
            nonlocal steps
            if self._death.steps is not None and steps >= self._death.steps and (step.deltas or step.finishes):
                self.dead.set()
                raise RuntimeError("killed")
            steps += bool(step.deltas or step.finishes)
            emit(step)
            for handle, index, _ in step.finishes:
                if index == 0:
                    self.open.discard(handle)

        try:
            await self._engine.run(until_death)
        except RuntimeError:
            if self._death.way == FAILED:
                raise
            await asyncio.Event().wait()


@dataclass
class Answer:
    """A whole answer as its reader saw it."""

    tokens: list[list[int]] = field(default_factory=list)
    logprobs: list[list[float]] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)


def all_received(server: ReplicaServer, fleet: Fleet, replica_id: str) -> bool:
    """Whether the fleet has read all that the replica's engine emitted; a cut connection loses what it has not."""
    sessions = fleet._connections[replica_id]._sessions  # type: ignore[attr-defined]
    seen = max((session._ack for session in sessions), default=0)
    return all(not session.outbox._tokens and session.sent <= seen for session in server._sessions)


@contextlib.asynccontextmanager
async def mortals(
    *deaths: Death, roles: Iterable[Role] = (), **options: Any
) -> AsyncIterator[tuple[Fleet, list[Mortal]]]:
    """A fleet of such replicas, p/0 and so on, which are taken away as they die."""
    given = [*roles, *[Role.BOTH] * len(deaths)]
    async with contextlib.AsyncExitStack() as stack:
        engines = [Mortal(death, role=role, **options) for death, role in zip(deaths, given, strict=False)]
        servers = [await stack.enter_async_context(serving(engine)) for engine in engines]
        fleet = await stack.enter_async_context(fleet_at(*(address for _, address in servers), roles=given))

        async def take_away(number: int) -> None:
            await engines[number].dead.wait()
            if deaths[number].way == LOST:
                server = servers[number][0]
                await until(lambda: all_received(server, fleet, f"p/{number}"))
                grpc_server = server._grpc
                assert grpc_server is not None
                # Cancelled in the middle, it would cancel what the server's own close waits for.
                await asyncio.shield(grpc_server.stop(None))
            elif deaths[number].way == DRAINED:
                fleet.drain({**fleet._drains, f"p/{number}": 0.0})
                fleet.tick()

        tasks = [asyncio.create_task(take_away(number)) for number in range(len(deaths))]
        try:
            yield fleet, engines
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def begin(
    fleet: Fleet, submit: Submit, handle: RequestHandle | None = None, dispatch_context: DispatchContext | None = None
) -> Dispatched:
    route = RouteRequest(submit.request_id, len(submit.prompt_ids), submit.max_tokens, submit.sampling.n)
    return await dispatch(
        dispatch_context or DispatchContext(fleet, RoundRobin()), route, submit, handle or RequestHandle()
    )


async def read(dispatched: Dispatched, sequences: int = 1) -> Answer:
    """All of it. A finish must come once for each sequence, and nothing after it."""
    answer = Answer([[] for _ in range(sequences)], [[] for _ in range(sequences)])
    finishes: dict[int, Finish] = {}
    events: list[Event] = dispatched.first
    while True:
        for index, tokens, logprobs, finish in events:
            assert index not in finishes
            answer.tokens[index] += tokens
            answer.logprobs[index] += [entry.chosen for entry in logprobs or ()]
            if finish is not None:
                finishes[index] = finish
        if len(finishes) == sequences:
            break
        events = await dispatched.stream.receive()
    dispatched.stream.close()
    answer.finishes = [finishes[index] for index in range(sequences)]
    return answer


async def whole_answer(submit: Submit, **options: Any) -> Answer:
    """What a replica says that nothing happens to."""
    async with mortals(Death(), **options) as (fleet, _):
        return await read(await begin(fleet, submit), submit.sampling.n)
