"""Both controllers, of sizes and of shapes, over a real store, with a launcher that has four GPUs."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.config.settings import Config
from gateway.fleets.discovery.registrations import Registration, deregister, register
from gateway.fleets.reports import Reporter
from gateway.reshaping.change import Change, ModelShapes
from gateway.reshaping.controller import ShapeController
from gateway.reshaping.replica_links import SeenReplica
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.reshaping.shape_records import ShapeRecords, read_shape_records
from gateway.rollouts.webhooks import Webhooks
from gateway.scaling.controller import Controller
from gateway.scaling.demand import demand_reports
from gateway.scaling.demand.demand_reports import ModelReport, report_demand
from gateway.scaling.intents import Intent, read_intents
from gateway.scaling.settings import scaled_models
from gateway.store.store_client import Store
from protos.launch_step import LaunchStep
from protos.reshape import ReshapeOrder
from protos.types import Role, Shape
from replicas.launchers.launcher import LauncherError, ReplicaOrder
from routing.health.replica_status import ReplicaStatus, State
from routing.transports.replica_spec import ReplicaSpec
from tests.gateway.scaling.scaled import FakeLauncher, FakeScaler
from tests.gateway.timed_store import Clocked, TimedStore

GPUS = 4
GROUP = "narrow/wide"


KV_TOKENS = {"narrow_kv_tokens": 74_000, "wide_kv_tokens": 400_000}


def config_of(kv_tokens: Mapping[str, int] = KV_TOKENS, **reshape: Any) -> Config:
    """A model `m` of up to four narrow replicas, or a wide one, on four GPUs."""
    relaunch = {"narrow": "narrow", "wide": "wide", **kv_tokens}

    def pool(name: str, tp: int, most: int) -> dict[str, Any]:
        scaling = {"min": 0, "max": most, "price_per_hour": 2.0 * tp, "start_timeout_seconds": 60}
        return {
            "name": name,
            "engine": "simulated",
            "replicas": "registered",
            "shape": {"tp": tp},
            "launcher": "local",
            "scaling": scaling,
        }

    model = {
        "name": "m",
        "tokenizer": "t",
        "context": 400_000,
        "pools": [pool("narrow", 1, 4), pool("wide", 4, 1)],
        "reshape": {"mode": "off", "relaunch": relaunch, **reshape},
    }
    return msgspec.convert({"models": [model]}, Config)


class GpuLauncher(FakeLauncher):
    """Has four GPUs, and starts nothing where too few are free."""

    def __init__(self) -> None:
        super().__init__()
        self.most_used = 0
        #: Pools whose replicas end as soon as they are started, with the launcher's problem.
        self.failing: dict[str, str] = {}

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        for order in orders:
            if self.used + order.shape.gpus > GPUS:
                raise LauncherError(f"{order.id}: {order.shape.gpus} GPUs are needed, and {GPUS - self.used} are free")
            await super().start([order])
            if order.pool in self.failing:
                failed = {"step": LaunchStep.FAILED, "problem": self.failing[order.pool]}
                self.replicas[order.id] = msgspec.structs.replace(self.replicas[order.id], **failed)
        self.most_used = max(self.most_used, self.used)

    @property
    def used(self) -> int:
        return sum(4 if one.pool == "wide" else 1 for one in self.replicas.values())

    def pool(self, name: str) -> list[str]:
        return [one.id for one in self.replicas.values() if one.pool == name]


class NoGroups:
    """The seam to replicas that are in no group."""

    def use(self, specs: Sequence[ReplicaSpec]) -> None:
        """Reach nobody."""

    def seen(self) -> Sequence[SeenReplica]:
        return ()

    def order(self, model: str, address: str, order: ReshapeOrder) -> None:
        raise AssertionError("nobody is ordered anything")

    async def aclose(self) -> None:
        """Nothing is open."""


class World(Clocked):
    """Two pools on the same GPUs, and the controllers of their sizes and shapes.

    `broken` are pools whose replicas never become ready.
    """

    def __init__(self, store: Store, config: Config) -> None:
        super().__init__()
        self.now = time.time()
        self.store, self.config = TimedStore(store, self, demand_reports._REPORTS), config
        self.launcher = GpuLauncher()
        self.broken: set[str] = set()
        self.reporter = Reporter(store, "w")
        self.registry = ReshapeRegistry(self.store, config)
        self.report = ModelReport(window=30.0, arrivals=30.0)
        self._ids = 0
        self._registered: dict[str, Registration] = {}
        self.sizes = Controller(
            self.store,
            scaled_models(config),
            {"local": self.launcher},
            FakeScaler,
            "sizes",
            clock=lambda: self.now,
            id_of=self._id,
        )
        self.shapes = self.shape_controller("shapes")

    def shape_controller(self, name: str) -> ShapeController:
        return ShapeController(self.store, self.config, NoGroups(), Webhooks("reshape"), name, clock=lambda: self.now)

    def want(self, **pools: int) -> None:
        scaler = self.sizes.models[0].scaler
        assert isinstance(scaler, FakeScaler)
        scaler.wanted = pools

    def _id(self, pool: str) -> str:
        self._ids += 1
        return f"{pool}-{self._ids}"

    async def round(self, times: int = 1, seconds: float = 1.0) -> None:
        for _ in range(times):
            self.now += seconds
            await self._say()
            for controller in (self.shapes, self.sizes):
                await controller.renew()
                await controller.round()
            await self.sizes._calls["local"].finished(5.0)
            assert self.launcher.used <= GPUS

    async def _say(self) -> None:
        await report_demand(self.store, "w", {"m": self.report})
        ready = [one for one in self.launcher.replicas.values() if one.pool not in self.broken]
        for one in ready:
            shape = Shape(4 if one.pool == "wide" else 1)
            self._registered[one.id] = Registration(
                "m", one.pool, one.address, 1, "simulated", shape, Role.BOTH, launch_id=one.id
            )
        for id_, registration in list(self._registered.items()):
            if id_ in self.launcher.replicas:
                await register(self.store, registration)
            else:
                await deregister(self.store, self._registered.pop(id_))
        # What drains has nothing left at once.
        draining = {intent.id for intent in await self.intents() if intent.state != "run"}
        statuses = [
            ReplicaStatus(
                id=f"{one.pool}/{one.id}",
                pool=one.pool,
                state=State.DRAINED if one.id in draining else State.READY,
                reason="",
                running=0,
                waiting=0,
                kv_blocks_used=0,
                kv_blocks_total=100,
                in_flight=0,
                share=1.0,
                breaker_seconds=0.0,
                address=one.address,
            )
            for one in ready
        ]
        await self.reporter.report({"m": statuses})

    async def intents(self) -> Sequence[Intent]:
        return await read_intents(self.store)

    async def records(self) -> ShapeRecords:
        return await read_shape_records(self.store)

    async def status(self) -> ModelShapes:
        told = (await self.records()).told
        assert told is not None
        return told.models[0]

    async def until(self, *phases: str, most: int = 400) -> Change:
        change = None
        for _ in range(most):
            await self.round()
            change = (await self.records()).changes.get(f"m {GROUP}")
            if change is not None and change.phase in phases:
                return change
        raise AssertionError(f"not {phases}: {change}")


@contextlib.asynccontextmanager
async def relaunch_world(url: str, config: Config | None = None) -> AsyncIterator[World]:
    store = Store(url, timeout=10.0)
    try:
        yield World(store, config or config_of())
    finally:
        await store.aclose()
