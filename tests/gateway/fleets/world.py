"""A configuration of two models, and workers that say how their replicas are."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from msgspec import structs

from gateway.config.settings import Config
from gateway.fleets.fleet_sync import FleetSync
from gateway.store.store_client import Store
from routing.health.replica_status import ReplicaStatus, State

WIDE = {"name": "wide", "engine": "simulated", "shape": {"tp": 4}, "replicas": ["grpc://10.0.0.1:50051"]}
NARROW = {"name": "narrow", "engine": "simulated", "shape": {"tp": 2, "ep": 2}, "replicas": 2}
ONLY = {"name": "only", "engine": "simulated", "replicas": ["grpc://10.0.0.9:50051"]}
MODELS = [
    {"name": "m", "tokenizer": "t", "context": 9, "pools": [WIDE, NARROW]},
    {"name": "org/m2", "tokenizer": "t", "context": 9, "pools": [NARROW, ONLY]},
]
READY = ReplicaStatus("", "", State.READY, "", 3, 1, 100, 400, 2, 1.0, 0.0, 0.9)


def config_of(**fields: Any) -> Config:
    return msgspec.convert({"models": MODELS, **fields}, Config)


def status(id_: str, **fields: Any) -> ReplicaStatus:
    return structs.replace(READY, id=id_, pool=id_.partition("/")[0], **fields)


class FakeFleet:
    """What an exchange asks of a fleet."""

    def __init__(self, *statuses: ReplicaStatus) -> None:
        self.said = list(statuses)
        self.drained: Mapping[str, float] = {}
        self.times = 0

    def statuses(self) -> list[ReplicaStatus]:
        return self.said

    def drain(self, until: Mapping[str, float]) -> None:
        self.drained = until
        self.times += 1


class World:
    """A store, and the workers on it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.config = config_of()

    def worker(self, name: str, fleets: dict[str, FakeFleet], now: float = 0.0) -> FleetSync:
        return FleetSync(self.store, self.config, name, fleets, lambda: now)


@contextlib.asynccontextmanager
async def world_at(url: str) -> AsyncIterator[World]:
    store = Store(url, timeout=10.0)
    try:
        yield World(store)
    finally:
        await store.aclose()
