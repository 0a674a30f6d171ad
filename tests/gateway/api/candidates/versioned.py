"""A worker in front of two versions of a model, the second of which is to be a candidate."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from replicas.engines.simulated import SimulatedEngine
from replicas.replica_server import ReplicaServer
from routing.rollouts.settings import ShadowSettings
from routing.rollouts.split import CHANGED, SPLITS, Split
from tests.asgi import Client, gateway_of
from tests.harness import MODEL, serving
from tests.loops import until

OLD, NEW = "v1", "v2"
_PUT = Script("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]); redis.call('PUBLISH', KEYS[2], '')")


@dataclass
class Versions:
    """The worker's client, its store, and the replicas' servers by version."""

    client: Client
    store: Store
    servers: dict[str, ReplicaServer]

    async def split(self, shadow: ShadowSettings | None, **fields: Any) -> None:
        """Put a split into the store, and wait until the worker goes by it."""
        given: dict[str, Any] = {"epoch": 1, "candidate": NEW} | fields
        split = Split(model=MODEL, stable=OLD, salt="s", shadow=shadow, **given)
        await self.store.run(_PUT, [SPLITS, CHANGED], [MODEL, msgspec.json.encode(split)])
        versions = self.client.gateway.models[MODEL].versions
        assert versions is not None
        await until(lambda: versions.split == split)


@contextlib.asynccontextmanager
async def two_versions(
    store_url: str, old: SimulatedEngine, new: SimulatedEngine, **sections: Any
) -> AsyncIterator[Versions]:
    async with contextlib.AsyncExitStack() as stack:
        pools, servers = [], {}
        for version, engine in ((OLD, old), (NEW, new)):
            servers[version], address = await stack.enter_async_context(serving(engine))
            replicas = [f"grpc://{address}"]
            pools.append(
                {
                    "name": f"pool-{version}",
                    "version": version,
                    "shape": {"tp": 2},
                    "engine": "simulated",
                    "replicas": replicas,
                }
            )
        fields = {"pools": pools} | sections.pop("model_fields", {})
        client = await stack.enter_async_context(
            gateway_of(store_url, addresses=["unix:/nowhere"], model_fields=fields, **sections)
        )
        store = Store(store_url, timeout=10.0)
        try:
            versions = client.gateway.models[MODEL].versions
            assert versions is not None
            await until(lambda: versions.candidates(NEW))
            yield Versions(client, store, servers)
        finally:
            await store.aclose()
