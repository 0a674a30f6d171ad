"""A controller over a real store, with a launcher, replicas and workers that do as tests say."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.config.settings import Config
from gateway.fleets.discovery.registrations import Registration, deregister, register
from gateway.fleets.reports import Reporter
from gateway.scaling.controller import Controller
from gateway.scaling.demand.demand_reports import ModelReport, report_demand
from gateway.scaling.intents import Intent, read_intents
from gateway.scaling.model_controller import RememberingScaler
from gateway.scaling.settings import scaled_models
from gateway.scaling.status import ModelStatus, read_status
from gateway.store.store_client import Store
from protos.launch_step import LaunchStep
from protos.types import Role, Shape
from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Snapshot
from replicas.launchers.launcher import LaunchedReplica, LauncherError, PoolsUnknown, ReplicaOrder
from routing.health.replica_status import ReplicaStatus, State


def scaled_config(*others: dict[str, Any], **fields: Any) -> Config:
    """A configuration with one model `m` and one pool `p` of 0 to 8 replicas; `fields` are the pool's scaling.

    `others` are further pools.
    """
    scaling = {"min": 0, "max": 8, "price_per_hour": 2.0, **fields}
    pool = {"name": "p", "engine": "simulated", "replicas": "registered", "launcher": "local", "scaling": scaling}
    return msgspec.convert(
        {"models": [{"name": "m", "tokenizer": "t", "context": 9, "pools": [pool, *others]}]}, Config
    )


class FakeLauncher:
    """Replicas that exist because it was told so."""

    def __init__(self) -> None:
        self.replicas: dict[str, LaunchedReplica] = {}
        self.starts: list[str] = []
        self.stops: list[tuple[str, float]] = []
        self.fails = ""
        #: Pools of which it cannot say what runs.
        self.unknown: dict[tuple[str, str], str] = {}
        #: While it is cleared, calls hang.
        self.answers = asyncio.Event()
        self.answers.set()

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        await self._called()
        for order in orders:
            self.starts.append(order.id)
            self.replicas.setdefault(
                order.id,
                LaunchedReplica(
                    id=order.id,
                    model=order.model,
                    pool=order.pool,
                    step=LaunchStep.PROCESS,
                    since=0.0,
                    address=f"unix:/{order.id}",
                    spot=order.spot,
                ),
            )

    async def observe(self) -> Sequence[LaunchedReplica]:
        await self._called()
        if self.unknown:
            known = [one for one in self.replicas.values() if (one.model, one.pool) not in self.unknown]
            raise PoolsUnknown(self.unknown, known)
        return list(self.replicas.values())

    async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        await self._called()
        for id_ in ids:
            self.stops.append((id_, grace_seconds))
            self.replicas.pop(id_, None)

    async def _called(self) -> None:
        await self.answers.wait()
        if self.fails:
            raise LauncherError(self.fails)


class FakeScaler:
    """Wants what it is told."""

    def __init__(self, settings: ModelScaling) -> None:
        self.pools = [pool.name for pool in settings.pools]
        self.wanted: Mapping[str, int] = dict.fromkeys(self.pools, 0)
        self.spot = 0
        self.fails: Exception | None = None
        self.snapshots: list[Snapshot] = []

    def memory(self) -> bytes:
        return b"nothing"

    def restore(self, memory: bytes) -> bool:
        return memory == b"nothing"

    def decide(self, snapshot: Snapshot) -> Decision:
        self.snapshots.append(snapshot)
        if self.fails is not None:
            raise self.fails
        pools = {name: PoolDecision(wanted=count, spot=self.spot) for name, count in self.wanted.items()}
        rate = snapshot.demand.requests_per_second
        return Decision(at=snapshot.now, pools=pools, cost=1.0, inputs={"rate": rate}, reasons=["as told"])


class World:
    """One store, one launcher, and as many controllers as a test makes; `now` is their monotonic clock."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store = store
        self.config = config
        self.launcher = FakeLauncher()
        self.reporter = Reporter(store, "w")
        self.now = 1000.0
        self._ids = 0
        #: What each worker says; None: nobody reports.
        self.demand: ModelReport | None = ModelReport(window=30.0, arrivals=30.0)
        #: Sequences at each ready replica.
        self.in_flight: dict[str, int] = {}
        #: Replicas that are drained as their workers see it.
        self.drained: set[str] = set()
        #: Replicas whose engines make no steps, as their workers see it.
        self.wedged: set[str] = set()

    def controller(
        self, name: str = "one", scaler: Callable[[ModelScaling], RememberingScaler] = FakeScaler
    ) -> Controller:
        return Controller(
            self.store,
            scaled_models(self.config),
            {"local": self.launcher},
            scaler,
            name,
            clock=lambda: self.now,
            id_of=self._id,
        )

    def _id(self, pool: str) -> str:
        self._ids += 1
        return f"{pool}-{self._ids}"

    async def round(self, controller: Controller, seconds: float = 1.0, times: int = 1) -> None:
        """Let time pass, and the controller do a round after the workers' and replicas' reports."""
        for _ in range(times):
            self.now += seconds
            await self.say()
            await controller.renew()
            await controller.round()
            await controller._calls["local"].finished(5.0)

    async def say(self) -> None:
        """Report what the workers and the ready replicas say."""
        if self.demand is not None:
            await report_demand(self.store, "w", {"m": self.demand})
        statuses = [
            ReplicaStatus(
                id=f"p/{replica.id}",
                pool="p",
                state=self._state(replica.id),
                reason="",
                running=self.in_flight.get(replica.id, 0),
                waiting=0,
                kv_blocks_used=self.in_flight.get(replica.id, 0),
                kv_blocks_total=100,
                in_flight=self.in_flight.get(replica.id, 0),
                share=1.0,
                breaker_seconds=0.0,
                address=replica.address,
            )
            for replica in self.launcher.replicas.values()
        ]
        await self.reporter.report({"m": statuses})

    def _state(self, id_: str) -> State:
        return State.WEDGED if id_ in self.wedged else State.DRAINED if id_ in self.drained else State.READY

    async def ready(self, *ids: str) -> None:
        """Have these replicas, or all that were started, register as ready."""
        for id_ in ids or list(self.launcher.replicas):
            await register(self.store, self.registration(id_))

    def preempt(self, id_: str, at: float) -> None:
        """Have the launcher tell that a replica is taken away."""
        self.launcher.replicas[id_] = msgspec.structs.replace(self.launcher.replicas[id_], preempted_at=at)

    async def gone(self, id_: str) -> None:
        """Have a replica end by itself, and its launcher forget it."""
        await deregister(self.store, self.registration(id_))
        self.launcher.replicas.pop(id_, None)

    def registration(self, id_: str, step: LaunchStep = LaunchStep.READY) -> Registration:
        return Registration(
            model="m",
            pool="p",
            address=f"unix:/{id_}",
            epoch=1,
            engine="simulated",
            shape=Shape(),
            role=Role.BOTH,
            launch_id=id_,
            step=step,
        )

    async def intents(self) -> dict[str, Intent]:
        return {intent.id: intent for intent in await read_intents(self.store)}

    async def status(self) -> ModelStatus:
        _, status = await read_status(self.store)
        assert status is not None
        return status.models[0]


def scaler_of(controller: Controller) -> FakeScaler:
    scaler = controller.models[0].scaler
    assert isinstance(scaler, FakeScaler)
    return scaler


def want(controller: Controller, count: int, spot: int = 0) -> None:
    """Have a controller's scaler want so many."""
    scaler = scaler_of(controller)
    scaler.wanted, scaler.spot = {"p": count}, spot


@contextlib.asynccontextmanager
async def scaled_world(url: str, *others: dict[str, Any], **fields: Any) -> AsyncIterator[World]:
    store = Store(url, timeout=5.0)
    try:
        yield World(store, scaled_config(*others, **fields))
    finally:
        await store.aclose()
