"""A controller of shapes over a real store, with a group of replicas and workers that do as tests say."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.config.settings import Config
from gateway.fleets.reports import Reporter
from gateway.reshaping.change import Change, Event, ModelShapes
from gateway.reshaping.controller import ShapeController
from gateway.reshaping.replica_links import SeenReplica
from gateway.reshaping.shape_records import ShapeRecords, read_shape_events, read_shape_records
from gateway.rollouts.webhooks import Webhooks
from gateway.scaling.demand import demand_reports
from gateway.scaling.demand.demand_reports import ModelReport, report_demand
from gateway.scaling.leasing.lease import LEASE_SECONDS
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import ReplicaUnavailable
from protos.reshape import ReshapeOrder
from routing.health.replica_status import ReplicaStatus, State
from routing.transports.replica_spec import ReplicaSpec
from tests.gateway.timed_store import Clocked, TimedStore
from tests.ordered_group import OrderedGroup

OLDER = Script("return redis.call('ZINCRBY', KEYS[1], ARGV[1], ARGV[2])")
EXPIRE = Script("return redis.call('DEL', KEYS[1])")
ADDRESSES = [f"grpc://r{gpu}:1" for gpu in range(4)]


def config_of(**reshape: Any) -> Config:
    """A model `m` with a pool `p` of four replicas, one a GPU."""
    pool = {"name": "p", "engine": "simulated", "replicas": ADDRESSES}
    model = {
        "name": "m",
        "tokenizer": "t",
        "context": 400_000,
        "pools": [pool],
        "reshape": {"mode": "apply", **reshape},
    }
    return msgspec.convert({"models": [model]}, Config)


class PlayedReplicas:
    """The seam to the replicas of a played group."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.specs: Sequence[ReplicaSpec] = ()

    def use(self, specs: Sequence[ReplicaSpec]) -> None:
        self.specs = specs

    def seen(self) -> Sequence[SeenReplica]:
        return [
            SeenReplica(spec, self._world.group.members.get(spec.address))
            for spec in self.specs
            if spec.address not in self._world.lost
        ]

    def order(self, model: str, address: str, order: ReshapeOrder) -> None:
        world = self._world
        if address in world.lost:
            raise ReplicaUnavailable("lost")
        world.group.hear(address, order, world.now)
        world.act()

    async def aclose(self) -> None:
        """Nothing is open."""


class World(Clocked):
    """A played group, and the controllers of its shapes, of whose acts orders are some."""

    def __init__(self, store: Store, config: Config) -> None:
        super().__init__()
        self.store = TimedStore(store, self)
        self.direct = store
        self.config = config
        self.group = OrderedGroup(form="grpc://r{}:1")
        self.lost: set[str] = set()
        self.reporter = Reporter(store, "w")
        self.report = ModelReport(window=30.0, arrivals=0.0)
        self.report_age = 0.0
        self.longest: Mapping[str, int] = {}
        self.posted: list[tuple[str, dict[str, Any]]] = []

    def controller(self, name: str = "one") -> ShapeController:
        async def post(url: str, body: bytes) -> None:
            self.posted.append((url, msgspec.json.decode(body)))

        webhooks = Webhooks("reshape", post, retries=())
        return ShapeController(self.store, self.config, PlayedReplicas(self), webhooks, name, clock=lambda: self.now)

    async def round(self, controller: ShapeController, seconds: float = 1.0, times: int = 1) -> None:
        """Let time pass, and the controller do a round after the workers' reports."""
        for _ in range(times):
            self.now += seconds
            self.group.tick(self.now)
            await self.say()
            await controller.renew()
            await controller.round()

    async def until(self, controller: ShapeController, *phases: str, most: int = 60) -> Change:
        """Do rounds until the group's last change is in one of the phases."""
        change = None
        for _ in range(most):
            await self.round(controller)
            change = (await self.records()).changes.get("m g")
            if change is not None and change.phase in phases:
                return change
        raise AssertionError(f"not {phases}: {change}")

    async def say(self) -> None:
        statuses = [
            ReplicaStatus(
                id=f"p/{number}",
                pool="p",
                state=State.READY,
                reason="",
                running=0,
                waiting=0,
                kv_blocks_used=0,
                kv_blocks_total=100,
                in_flight=0,
                share=1.0,
                breaker_seconds=0.0,
                address=address,
                longest=self.longest.get(address, 0),
            )
            for number, address in enumerate(ADDRESSES)
        ]
        await self.reporter.report({"m": statuses})
        await report_demand(self.direct, "w", {"m": self.report})
        if self.report_age:
            await self.direct.run(OLDER, [demand_reports._KEYS[0]], [str(-self.report_age), "w"])

    def wants(self, *needs: int, waited: float = 0.0, short: float = 0.0, long_ended: float = 0.0) -> None:
        """Have requests of so many KV tokens wait, and a rate of short ones."""
        self.report = ModelReport(
            window=30.0,
            arrivals=30.0 * short,
            ended=100.0,
            prompt_tokens=100 * 2000.0,
            output_tokens=100 * 100.0,
            waiting=len(needs),
            long_waits=[(need, waited) for need in needs],
            long_ended=long_ended,
        )

    async def kill(self) -> None:
        """Let the lease of whoever holds it run out."""
        self.now += LEASE_SECONDS
        self.group.tick(self.now)
        await self.direct.run(EXPIRE, ["penstock:{reshape}:lease"], [])

    async def records(self) -> ShapeRecords:
        return await read_shape_records(TimedStore(self.direct, self))

    async def change(self) -> Change:
        return (await self.records()).changes["m g"]

    async def status(self) -> ModelShapes:
        told = (await self.records()).told
        assert told is not None
        return told.models[0]

    async def events(self) -> list[Event]:
        return await read_shape_events(self.direct, 1000)

    def spans(self) -> list[int]:
        """The widths of what serves."""
        leaders = [one.membership.span for one in self.group.members.values() if one.leads]
        return [span.width for span in sorted(leaders)]


@contextlib.asynccontextmanager
async def shapes_world(url: str, config: Config | None = None) -> AsyncIterator[World]:
    store = Store(url, timeout=10.0)
    try:
        yield World(store, config or config_of())
    finally:
        await store.aclose()
