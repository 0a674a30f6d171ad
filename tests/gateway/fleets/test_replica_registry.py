import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import pytest

from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import Conflict, InvalidRequest, ReplicaNotFound
from routing.health.replica_status import State
from tests.gateway.fleets.world import FakeFleet, World, config_of, status, world_at


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[World, ReplicaRegistry]]:
    async with world_at(url) as world:
        yield world, ReplicaRegistry(world.store, world.config)


async def test_a_drain_and_its_end_are_in_the_audit_trail(any_store_url: str) -> None:
    async with opened(any_store_url) as (world, registry):
        drain = await registry.drain(None, "wide", 12.5, "cli:me")
        assert (drain.model, drain.target, drain.grace_seconds, drain.actor) == ("m", "wide", 12.5, "cli:me")
        assert abs(drain.since - await world.store.now()) < 5
        (row, *rest) = await registry.replicas("m")
        assert row.drain == drain
        assert [other.drain for other in rest] == [None, None]
        again = await registry.drain("m", "wide", 1.0, "cli:you")
        assert again.since >= drain.since
        assert await registry.resume(None, "wide", "cli:me") == [again]
        assert (await registry.replicas("m"))[0].drain is None
        assert await registry.resume(None, "wide", "cli:me") == []
        trail = await Registry(world.store, world.config).audit()
        assert [(entry.action, entry.subject, entry.actor) for entry in trail] == [
            ("replica.resume", "m wide", "cli:me"),
            ("replica.drain", "m wide", "cli:you"),
            ("replica.drain", "m wide", "cli:me"),
        ]
        assert trail[1].before["grace_seconds"] == 12.5


async def test_a_pool_is_resumed_with_its_replicas_and_a_replica_not_without_its_pool(store_url: str) -> None:
    async with opened(store_url) as (_, registry):
        await registry.drain("m", "narrow/0", 1.0, "a")
        await registry.drain("org/m2", "narrow", 1.0, "a")
        await registry.drain("m", "narrow", 1.0, "a")
        with pytest.raises(Conflict, match="resume that"):
            await registry.resume("m", "narrow/0", "a")
        assert [drain.target for drain in await registry.resume("m", "narrow", "a")] == ["narrow", "narrow/0"]
        assert [row.id for row in await registry.replicas() if row.drain is not None] == ["narrow/0", "narrow/1"]
        await registry.drain("m", "narrow/1", 1.0, "a")
        assert [drain.target for drain in await registry.resume("m", "narrow/1", "a")] == ["narrow/1"]


async def test_what_cannot_be(store_url: str) -> None:
    async with opened(store_url) as (_, registry):
        for grace in (-1.0, 86_401.0, math.nan, math.inf):
            with pytest.raises(InvalidRequest, match="grace_seconds"):
                await registry.drain(None, "wide", grace, "a")
        with pytest.raises(ReplicaNotFound):
            await registry.drain(None, "x", 1.0, "a")
        with pytest.raises(ReplicaNotFound):
            await registry.resume("x", "wide", "a")
        with pytest.raises(ReplicaNotFound):
            await registry.replicas("x")


async def test_a_drain_of_what_is_no_longer_configured_can_be_undone(store_url: str) -> None:
    async with opened(store_url) as (world, registry):
        await registry.drain(None, "wide/0", 1.0, "a")
        left = {"name": "p", "engine": "simulated", "replicas": 1}
        models = [{"name": "m", "tokenizer": "t", "context": 9, "pools": [left]}]
        other = ReplicaRegistry(world.store, config_of(models=models))
        assert [row.drain for row in await other.replicas()] == [None]
        assert len(await other.resume(None, "wide/0", "a")) == 1
        with pytest.raises(ReplicaNotFound):
            await other.resume(None, "wide/0", "a")


async def test_drains_that_cross_are_all_kept(store_url: str) -> None:
    async with opened(store_url) as (_, registry):
        targets = [("m", "wide"), ("m", "narrow"), ("m", "narrow/0"), ("org/m2", "narrow/1"), ("org/m2", "only")]
        await asyncio.gather(*(registry.drain(model, target, 1.0, "a") for model, target in targets))
        assert sum(row.drain is not None for row in await registry.replicas()) == 5


async def test_the_workers_reports_are_one_list(store_url: str) -> None:
    async with opened(store_url) as (world, registry):
        wedged = status("wide/0", state=State.WEDGED, reason="it hangs", running=0, share=0.0, accuracy=None)
        gone = status("wide/0", state=State.CONNECTING, reason="lost", kv_blocks_total=0, share=0.0, breaker_seconds=3)
        await world.worker("a", {"m": FakeFleet(status("wide/0"), status("narrow/0", accuracy=0.5))}).exchange()
        await world.worker("b", {"m": FakeFleet(wedged, status("narrow/0"))}).exchange()
        await world.worker("c", {"m": FakeFleet(gone, status("narrow/0", accuracy=None))}).exchange()
        wide, narrow, silent = await registry.replicas("m")
        assert (wide.state, wide.reason) == ("wedged", "it hangs (in 1 of 3 workers)")
        assert (wide.workers, wide.running, wide.kv_blocks_total, wide.in_flight) == (3, 3, 400, 6)
        assert (wide.share, wide.breaker_seconds, wide.accuracy) == (0.333, 3.0, 0.9)
        assert (narrow.state, narrow.reason, narrow.accuracy) == ("ready", "", 0.7)
        assert (silent.state, silent.reason, silent.workers) == ("unknown", "no worker reports it", 0)
