"""A host group and the fleet that sees it: what tests of both share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from protos.reshape import Span
from protos.types import Shape
from routing.dispatch.dispatch import Dispatched
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.health.replica_status import State
from routing.policies.round_robin import RoundRobin
from routing.prefix.prefix_directory import PrefixDirectory
from tests.grouped import GroupedReplica, group_of
from tests.harness import spec_of, submit_of
from tests.loops import until
from tests.routing.mortal import begin

#: Both GPUs of a group of two.
WHOLE = Span(0, 2)


class World:
    """A group, the fleet that sees it, and the fleet's clock."""

    def __init__(self, replicas: Sequence[GroupedReplica], addresses: Sequence[str], **options: Any) -> None:
        self.now = 1000.0
        self.replicas = replicas
        specs = [spec_of(address, id=f"p/{i}", shape=Shape(), **options) for i, address in enumerate(addresses)]
        self.prefixes = PrefixDirectory()
        self.fleet = Fleet(specs, "test", self.prefixes, clock=lambda: self.now)
        self.context = DispatchContext(self.fleet, RoundRobin())

    @property
    def shapes(self) -> dict[str, int]:
        """The width of each candidate."""
        return {view.id: view.shape.tp for view in self.fleet.candidates()}

    @property
    def states(self) -> list[State]:
        return [status.state for status in self.fleet.statuses()]

    async def start(self, replica: GroupedReplica, *tokens: int, name: str = "r", length: int = 8) -> Dispatched:
        """A request that gets these tokens of a replica."""
        others = [f"p/{i}" for i, other in enumerate(self.replicas) if other is not replica]
        self.fleet.drain(dict.fromkeys(others, float("inf")))
        task = asyncio.create_task(begin(self.fleet, submit_of(length, name=name), dispatch_context=self.context))
        await until(lambda: name in [submit.request_id for submit in replica.given])
        self.fleet.drain({})
        await replica.say(*tokens)
        return await task

    async def merge(self) -> None:
        """Let the first replica of two serve both GPUs."""
        one, other = self.replicas
        await one.serve(WHOLE)
        await other.park(one, WHOLE)
        await until(lambda: self.shapes == {"p/0": 2})

    async def split(self) -> None:
        one, other = self.replicas
        await other.serve(Span(1, 1))
        await one.serve(Span(0, 1))
        await until(lambda: self.shapes == {"p/0": 1, "p/1": 1})


@contextlib.asynccontextmanager
async def world_of(gpus: int = 2, **options: Any) -> AsyncIterator[World]:
    async with group_of(gpus) as (replicas, addresses), seen(World(replicas, addresses, **options)) as world:
        await world.fleet.wait_ready(gpus)
        yield world


@contextlib.asynccontextmanager
async def seen(world: World) -> AsyncIterator[World]:
    world.fleet.start()
    try:
        yield world
    finally:
        await world.fleet.aclose()
