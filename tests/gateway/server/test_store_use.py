"""What `GET /readyz` says of the store is what requests get."""

import asyncio
from typing import Any

import msgspec
import pytest
import redis

from gateway.config.tenants import Tenant
from gateway.server.store_use import serves_without_writes
from gateway.store.embedded import EmbeddedStore
from tests.asgi import Answer, Client, gateway_of
from tests.harness import engine_of

LIMITED = {"name": "acme", "limits": {"rpm": 1000}}
OPEN = LIMITED | {"on_store_failure": "fail_open"}


async def readiness(client: Client) -> Answer:
    return await client.request("GET", "/readyz", headers=[])


@pytest.mark.parametrize(
    ("tenant", "status"), [(None, 200), ({"name": "acme"}, 200), (OPEN, 200), (LIMITED, 503)], ids=str
)
async def test_a_store_that_takes_no_writes(own_store: EmbeddedStore, tenant: Any, status: int) -> None:
    async with gateway_of(own_store.url, engine_of(), tenant=tenant) as client:
        assert "problems" not in (await readiness(client)).json
        with redis.Redis.from_url(own_store.url) as server:
            server.config_set("maxmemory", 1)
            for _ in range(2):
                ready = await readiness(client)
                assert (ready.status, ready.json["status"]) == (status, "ready" if status == 200 else "not ready")
                assert ready.json["problems"] == [
                    "The store takes no writes: requests with limits get 503 unless their tenant is fail_open."
                ]
                assert (await client.chat()).status == status
            server.config_set("maxmemory", 0)
        ready = await readiness(client)
        assert (ready.status, "problems" in ready.json) == (200, False)


@pytest.mark.parametrize(("tenant", "status"), [(None, 503), (OPEN, 200), (LIMITED, 503)], ids=str)
async def test_a_store_that_is_away(own_store: EmbeddedStore, tenant: Any, status: int) -> None:
    async with gateway_of(own_store.url, engine_of(), tenant=tenant) as client:
        assert (await client.chat()).status == 200
        await asyncio.to_thread(own_store.stop)
        ready = await readiness(client)
        assert (ready.status, ready.json["status"]) == (status, "ready" if status == 200 else "not ready")
        assert "fail_open tenants whose keys this worker remembers" in ready.json["problems"][0]
        assert own_store.url not in ready.body.decode()
        if status == 200:
            assert (await client.chat()).status == 200


async def test_a_worker_that_remembers_no_key_is_not_ready_without_the_store(own_store: EmbeddedStore) -> None:
    async with gateway_of(own_store.url, engine_of(), tenant=OPEN) as client:
        await asyncio.to_thread(own_store.stop)
        assert (await readiness(client)).status == 503
        assert (await client.chat()).status == 503


@pytest.mark.parametrize(
    ("tenant", "served"),
    [
        ({}, True),
        ({"limits": {"tpm": 5}}, False),
        ({"limits": {"budget": {"usd": 5}}}, False),
        ({"model_limits": {"m": {"rpm": 5}}}, True),
        ({"model_limits": {"m": {"rpm": 5}, "n": {"budget": {"usd": 5}}}}, False),
        ({"model_limits": {"m": {"rpm": 5}}, "models": ["m"]}, False),
        ({"models": ["x"]}, False),
        ({"limits": {"rpm": 5}, "on_store_failure": "fail_open"}, True),
        ({"limits": {"rpm": 5}, "on_store_failure": "fail_open", "models": ["x"]}, False),
    ],
    ids=str,
)
def test_whom_a_store_without_writes_does_not_keep_from_being_served(tenant: dict[str, Any], served: bool) -> None:
    tenants = [msgspec.convert({"name": "acme"} | tenant, Tenant)]
    assert serves_without_writes(tenants, ["m", "n"]) is served
    assert not serves_without_writes([], ["m", "n"])
