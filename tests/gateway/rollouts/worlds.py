"""A controller of rollouts over a real store, with replicas, workers and measures that do as tests say."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.config.settings import Config
from gateway.fleets.reports import Reporter
from gateway.rollouts.controller import RolloutController
from gateway.rollouts.errands import Errands
from gateway.rollouts.rollout_records import Records, read_records
from gateway.rollouts.rollout_registry import RolloutRegistry
from gateway.rollouts.webhooks import Webhooks
from gateway.scaling.leasing.lease import LEASE_SECONDS
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from routing.health.replica_status import ReplicaStatus, State
from routing.rollouts.facts import Compared, GateResult, Passing, ReplicaFacts, VersionFacts, WarmupResult
from routing.rollouts.rollout import Event, Rollout, Warmed
from routing.rollouts.split import Split
from routing.rollouts.verdicts.verdict import Verdict
from tests.gateway.timed_store import Clocked, TimedStore

EXPIRE = Script("return redis.call('DEL', KEYS[1])")
AS_GOOD = Compared(kind="as_good", reason="No measure is worse.", requests=0)


def config_of(rollouts: Sequence[dict[str, Any]] = (), **model: Any) -> Config:
    """A model `m` with a stable pool `old` of v1 and a pool `new` of v2."""
    pools = [
        {"name": name, "engine": "simulated", "replicas": [f"grpc://{name}:1"], "version": version}
        for name, version in (("old", "v1"), ("new", "v2"))
    ]
    fields = {"name": "m", "tokenizer": "t", "context": 4096, "stable": "v1", "pools": pools} | model
    return msgspec.convert({"models": [fields], "rollouts": list(rollouts)}, Config)


class World(Clocked):
    """A model with two versions, and the controllers of its rollouts."""

    def __init__(self, store: Store, config: Config) -> None:
        super().__init__()
        self.store = TimedStore(store, self)
        self._direct = store
        self.use(config)
        self.reporter = Reporter(store, "w")
        self.ready: dict[str, int] = {"v1": 2, "v2": 2}
        self.in_flight: dict[str, int] = {"v1": 0, "v2": 0}
        #: The verdict on the candidate, whose requests grow with each round in which it has any.
        self.compared: Compared | None = AS_GOOD
        self.requests = 0
        self.warmups: dict[str, str] = {}
        self.asked: list[str] = []
        #: By how many seconds the store's clock is ahead of what it began with.
        self.jumped = 0.0
        self.gates: dict[str, Passing] = {}
        self.posted: list[tuple[str, dict[str, Any]]] = []

    def use(self, config: Config) -> None:
        self.config = config
        self.registry = RolloutRegistry(self.store, config)

    def controller(self, name: str = "one") -> RolloutController:
        async def post(url: str, body: bytes) -> None:
            self.posted.append((url, msgspec.json.decode(body)))

        webhooks = Webhooks("rollout", post, retries=())
        return RolloutController(
            self.store, self.config, self, Errands(self, self), webhooks, name, clock=lambda: self.now - self.jumped
        )

    # ---- what controllers ask

    async def compare(self, rollout: Rollout, now: float) -> tuple[Compared, Verdict] | None:
        if self.compared is None or not rollout.share:
            return None
        self.requests += 50
        found = msgspec.structs.replace(self.compared, requests=self.requests)
        return found, Verdict(kind=found.kind, reason=found.reason)

    async def warm_up(self, rollout: Rollout, replica: ReplicaFacts) -> WarmupResult:
        self.asked.append(replica.id)
        problem = self.warmups.get(replica.id, "")
        warmed = None if problem else Warmed(requests=1, ttft_seconds=0.1, tpot_seconds=0.01)
        return WarmupResult(replica=replica.id, warmed=warmed, problem=problem, slow=problem == "slow")

    async def run(
        self, rollout: Rollout, candidate: VersionFacts, elapsed: float, tell: Callable[[str], None]
    ) -> GateResult:
        self.asked.append(rollout.phase)
        tell("what it waits for")
        passing = self.gates.get(rollout.phase, "passed")
        return GateResult(gate=rollout.phase, passing=passing, reason="as told")

    # ---- what happens

    async def round(self, controller: RolloutController, seconds: float = 1.0, times: int = 1) -> None:
        """Let time pass, and the controller do a round after the workers' reports."""
        for _ in range(times):
            self.now += seconds
            await self.say()
            await controller.renew()
            await controller.round()
            for task in list(controller._errands._tasks.values()):
                with contextlib.suppress(BaseException):
                    await task

    async def until(self, controller: RolloutController, *phases: str, seconds: float = 1.0, most: int = 60) -> Rollout:
        """Do rounds until the rollout is in one of the phases."""
        for _ in range(most):
            await self.round(controller, seconds)
            rollout = (await self.records()).rollouts.get("m")
            if rollout is not None and rollout.phase in phases:
                return rollout
        raise AssertionError(f"not {phases}: {rollout}")

    async def say(self) -> None:
        pools = {"v1": "old", "v2": "new"}
        statuses = [
            ReplicaStatus(
                id=f"{pools[version]}/{number}",
                pool=pools[version],
                state=State.READY,
                reason="",
                running=0,
                waiting=0,
                kv_blocks_used=0,
                kv_blocks_total=100,
                in_flight=self.in_flight[version],
                share=1.0,
                breaker_seconds=0.0,
                address=f"grpc://{pools[version]}:{number}",
                version=version,
            )
            for version, count in self.ready.items()
            for number in range(count)
        ]
        await self.reporter.report({"m": statuses})

    def jump(self, seconds: float) -> None:
        """Let the store's clock jump."""
        self.now += seconds
        self.jumped += seconds

    async def kill(self) -> None:
        """Let the lease of whoever holds it run out."""
        self.now += LEASE_SECONDS
        await self._direct.run(EXPIRE, ["penstock:{rollouts}:lease"], [])

    async def records(self) -> Records:
        return await read_records(TimedStore(self._direct, self) if not self.away else self._unaway())

    def _unaway(self) -> Any:
        return self._direct

    async def split(self) -> Split:
        return (await self.records()).splits["m"]

    async def events(self) -> list[Event]:
        rollout = (await self.records()).rollouts["m"]
        return list(rollout.history)


@contextlib.asynccontextmanager
async def rollout_world(url: str, config: Config | None = None) -> AsyncIterator[World]:
    store = Store(url, timeout=10.0)
    try:
        yield World(store, config or config_of())
    finally:
        await store.aclose()


def shares(events: Sequence[Event]) -> list[float]:
    """The candidate's shares, each once, in their order."""
    found: list[float] = []
    for event in events:
        if not found or found[-1] != event.share:
            found.append(event.share)
    return found


def causes(events: Sequence[Event]) -> list[str]:
    return [event.cause for event in events]


def of(events: Sequence[Event]) -> Mapping[str, Event]:
    """The last event of each phase."""
    return {event.phase: event for event in events}
