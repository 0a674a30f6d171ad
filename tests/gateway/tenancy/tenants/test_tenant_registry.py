import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gateway.config.tenants import Budget, Limits, Tenant
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import ApiKey, KeyChange, KeyRequest, quickstart_key
from gateway.tenancy.tenants.tenant_registry import Registry, TenantEntry
from protos.errors import Conflict, InvalidRequest, KeyNotFound, StoreUnavailable, TenantNotFound
from tests.authentication import config_of

PUT = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
TENANTS = "penstock:{keys}:tenants"
FILE = {"tenants": [{"name": "filed", "tier": "gold"}]}


@contextlib.asynccontextmanager
async def running(url: str, **config: Any) -> AsyncIterator[tuple[Registry, Store]]:
    store = Store(url, timeout=10.0)
    try:
        yield Registry(store, config_of(**(config or FILE))), store
    finally:
        await store.aclose()


async def refused(change: Awaitable[Any]) -> str:
    with pytest.raises((Conflict, InvalidRequest)) as caught:
        await change
    return f"{caught.value.status} {caught.value.param}"


async def test_the_life_of_a_tenant(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        default, filed = (
            TenantEntry(Tenant(name="default"), "built-in"),
            TenantEntry(Tenant(name="filed", tier="gold"), "file"),
        )
        assert await registry.tenants() == [default, filed]
        acme = Tenant(name="acme", tier="silver", limits=Limits(rpm=5, budget=Budget(usd=9.5, alerts=(50,))))
        assert await registry.create_tenant(acme, "t") == TenantEntry(acme, "api")
        assert await registry.tenants() == [TenantEntry(acme, "api"), default, filed]
        assert await registry.tenant("acme") == TenantEntry(acme, "api")
        changed = Tenant(name="acme", models=("m",))
        assert await registry.replace_tenant(changed, "t") == TenantEntry(changed, "api")
        assert (await registry.tenant("acme")).tenant == changed
        await registry.delete_tenant("acme", "t")
        assert await registry.tenants() == [default, filed]
        for missing in (
            registry.tenant("acme"),
            registry.replace_tenant(acme, "t"),
            registry.delete_tenant("acme", "t"),
        ):
            with pytest.raises(TenantNotFound, match="There is no tenant 'acme'"):
                await missing


async def test_the_default_tenant_may_be_given_a_record_and_lose_it_again(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        assert await refused(registry.delete_tenant("default", "t")) == "409 name"
        limited = Tenant(name="default", limits=Limits(rpm=5))
        assert await registry.replace_tenant(limited, "t") == TenantEntry(limited, "api")
        assert await refused(registry.create_tenant(limited, "t")) == "409 name"
        await registry.delete_tenant("default", "t")
        assert await registry.tenant("default") == TenantEntry(Tenant(name="default"), "built-in")
        assert (await registry.create_tenant(limited, "t")).source == "api"


async def test_the_file_wins_and_says_so(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, store):
        filed = Tenant(name="filed", tier="gold")
        for change in (
            registry.create_tenant(filed, "t"),
            registry.replace_tenant(filed, "t"),
            registry.delete_tenant("filed", "t"),
        ):
            with pytest.raises(Conflict, match="The configuration file has the tenant 'filed'; change it there"):
                await change
        await store.run(PUT, [TENANTS], ["filed", msgspec.json.encode(Tenant(name="filed"))])
        assert await registry.tenant("filed") == TenantEntry(filed, "file", shadowed=True)
        assert [entry.shadowed for entry in await registry.tenants()] == [False, True]
        assert await registry.audit() == []


async def test_a_bad_tenant_changes_nothing(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        await registry.create_tenant(Tenant(name="acme"), "t")
        version = await registry.audit()
        for bad, path in (
            (Tenant(name="acme", tier="platinum"), "tier"),
            (Tenant(name="acme", models=("*", "m")), "models[1]"),
            (Tenant(name="acme", model_limits={"x": Limits()}), "model_limits.x"),
        ):
            assert await refused(registry.replace_tenant(bad, "t")) == f"400 {path}"
            assert await refused(registry.create_tenant(bad, "t")) == f"400 {path}"
        assert await refused(registry.edit_tenant("acme", lambda _: Tenant(name="other"), "t")) == "400 name"
        assert (await registry.tenant("acme")).tenant == Tenant(name="acme")
        assert await registry.audit() == version


async def test_a_tenant_with_active_keys_stays(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        await registry.create_tenant(Tenant(name="acme"), "t")
        key, _ = await registry.create_key(KeyRequest(name="k", tenant="acme"), "t")
        with pytest.raises(Conflict, match=r"The tenant 'acme' has active keys \(1\); revoke them first"):
            await registry.delete_tenant("acme", "t")
        await registry.revoke_key(key.key_id, "t")
        await registry.delete_tenant("acme", "t")
        assert [key.name for key in await registry.keys("acme")] == ["k"]


async def test_no_key_is_made_for_a_tenant_that_is_being_deleted(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        for number in range(15):
            name = f"t{number}"
            await registry.create_tenant(Tenant(name=name), "t")
            await asyncio.gather(
                registry.delete_tenant(name, "t"),
                registry.create_key(KeyRequest(name="k", tenant=name), "t"),
                return_exceptions=True,
            )
            tenants = {entry.tenant.name for entry in await registry.tenants()}
            assert {key.tenant for key in await registry.keys()} <= tenants


async def test_concurrent_edits_lose_none(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, store):
        await registry.create_tenant(Tenant(name="acme", models=("m",)), "t")
        key, _ = await registry.create_key(KeyRequest(name="k"), "t")
        elsewhere = Registry(store, config_of())

        def with_model(number: int) -> Callable[[Tenant], Tenant]:
            return lambda tenant: msgspec.structs.replace(tenant, models=(*tenant.models, f"m{number}"))

        def with_entry(number: int) -> Callable[[ApiKey], KeyChange]:
            return lambda key: KeyChange(metadata={**key.metadata, f"n{number}": ""})

        both = itertools.cycle([registry, elsewhere])
        await asyncio.gather(
            *(next(both).edit_tenant("acme", with_model(number), "t") for number in range(15)),
            *(next(both).edit_key(key.key_id, with_entry(number), "t") for number in range(15)),
        )
        assert set((await registry.tenant("acme")).tenant.models) == {"m", *(f"m{number}" for number in range(15))}
        assert set((await registry.key(key.key_id)).metadata) == {f"n{number}" for number in range(15)}
        assert len(await registry.audit()) == 32


async def test_a_key_is_checked_before_it_is_made(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        now = await registry.now()
        for fields, refusal in (
            ({"name": "quickstart"}, "400 name"),
            ({"name": "a\nb"}, "400 name"),
            ({"tenant": "nobody"}, "400 tenant"),
            ({"models": ("*", "m")}, "400 models[1]"),
            ({"expires_at": now - 0.001}, "400 expires_at"),
            ({"metadata": {"": ""}}, "400 metadata"),
            ({"limits": Limits(max_output_tokens=1, default_output_tokens=2)}, "400 limits.default_output_tokens"),
        ):
            assert await refused(registry.create_key(KeyRequest(**({"name": "k"} | fields)), "t")) == refusal
        assert await registry.keys() == []
        assert await registry.audit() == []
        for tenant in ("default", "filed"):
            key, secret = await registry.create_key(KeyRequest(name="k", tenant=tenant, expires_at=now + 5), "t")
            assert (key.tenant, secret[:12]) == (tenant, "sk-penstock-")
        assert [key.tenant for key in await registry.keys("filed")] == ["filed"]
        assert await refused(registry.create_key(KeyRequest(name="k"), "t")) == "409 name"


async def test_changing_a_key(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        key, _ = await registry.create_key(KeyRequest(name="k", metadata={"a": "b"}), "t")
        change = KeyChange(name="new", models=("m",), limits=Limits(rpm=5), endpoints=("chat",))
        changed = await registry.update_key(key.key_id, change, "t")
        assert changed == msgspec.structs.replace(
            key, name="new", models=("m",), limits=Limits(rpm=5), endpoints=("chat",)
        )
        assert await registry.key(key.key_id) == changed
        for bad, refusal in (
            (KeyChange(name="quickstart"), "400 name"),
            (KeyChange(expires_at=1.0), "400 expires_at"),
            (KeyChange(models=("a", "a")), "400 models[1]"),
        ):
            assert await refused(registry.update_key(key.key_id, bad, "t")) == refusal
        assert await registry.update_key(key.key_id, KeyChange(), "t") == changed
        assert len(await registry.audit()) == 2
        await registry.revoke_key(key.key_id, "t")
        with pytest.raises(Conflict, match="has been revoked, for good"):
            await registry.update_key(key.key_id, KeyChange(expires_at=None), "t")
        for missing in (
            registry.key("key_0"),
            registry.update_key("key_0", KeyChange(name="x"), "t"),
            registry.rotate_key("key_0", 5.0, "t"),
            registry.revoke_key("key_0", "t"),
        ):
            with pytest.raises(KeyNotFound, match="no key with the id 'key_0'"):
                await missing


async def test_a_key_whose_tenant_is_gone_gets_no_later_end(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        await registry.create_tenant(Tenant(name="acme"), "t")
        key, _ = await registry.create_key(KeyRequest(name="k", tenant="acme"), "t")
        await registry._keys.edit(key.key_id, lambda key, now: msgspec.structs.replace(key, expires_at=now), actor="t")
        await registry.delete_tenant("acme", "t")
        with pytest.raises(Conflict, match="the key's tenant 'acme' is gone"):
            await registry.update_key(key.key_id, KeyChange(expires_at=None), "t")
        # What does not bring it back may be changed all the same.
        assert (await registry.update_key(key.key_id, KeyChange(models=("m",)), "t")).models == ("m",)
        await registry.create_tenant(Tenant(name="acme"), "t")
        assert (await registry.update_key(key.key_id, KeyChange(expires_at=None), "t")).expires_at is None


async def test_the_quickstart_key_keeps_its_name(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        await quickstart_key(registry._keys)
        (key,) = await registry.keys()
        changed = await registry.update_key(key.key_id, KeyChange(limits=Limits(rpm=5)), "t")
        assert (changed.name, changed.limits.rpm) == ("quickstart", 5)


@pytest.mark.parametrize("grace", [-1.0, -0.001, 2_592_000.1, 1e400, math.nan])
async def test_a_grace_has_bounds(any_store_url: str, grace: float) -> None:
    async with running(any_store_url) as (registry, _):
        key, _ = await registry.create_key(KeyRequest(name="k"), "t")
        assert await refused(registry.rotate_key(key.key_id, grace, "t")) == "400 grace_seconds"
        await registry.rotate_key(key.key_id, 2_592_000, "t")


async def test_the_audit_trail_has_every_change_and_no_secret(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        await registry.create_tenant(Tenant(name="acme"), "cli:ann")
        await registry.replace_tenant(Tenant(name="acme", tier="gold"), "admin")
        key, secret = await registry.create_key(KeyRequest(name="k", tenant="acme"), "cli:bob")
        new, new_secret = await registry.rotate_key(key.key_id, 0, "cli:bob")
        await registry.revoke_key(new.key_id, "cli:bob")
        await registry.delete_tenant("acme", "admin")
        trail = await registry.audit()
        assert [(entry.actor, entry.action, entry.subject) for entry in reversed(trail)] == [
            ("cli:ann", "tenant.create", "acme"),
            ("admin", "tenant.update", "acme"),
            ("cli:bob", "key.create", key.key_id),
            ("cli:bob", "key.rotate", key.key_id),
            ("cli:bob", "key.revoke", new.key_id),
            ("admin", "tenant.delete", "acme"),
        ]
        deleted, revoked, rotated, made, updated, created = trail
        assert (created.before, created.after["tier"]) == (None, None)
        assert (updated.before["tier"], updated.after["tier"]) == (None, "gold")
        assert (made.before, made.after["id"]) == (None, key.key_id)
        assert rotated.after["replaced"]["id"] == rotated.before["id"] == key.key_id
        assert rotated.after["replacement"]["replaces"] == key.key_id
        assert revoked.before["revoked_at"] is None
        assert revoked.after["revoked_at"] is not None
        assert (deleted.before["tier"], deleted.after) == ("gold", None)
        assert all(abs(entry.time - time.time()) < 60 for entry in trail)
        text = msgspec.json.encode(trail)
        for kept in (secret, new_secret):
            assert kept[12:].encode() not in text


async def test_the_audit_trail_in_pages(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, _):
        for number in range(7):
            await registry.create_tenant(Tenant(name=f"t{number}"), "t")
        whole = await registry.audit()
        found = []
        before = None
        while page := await registry.audit(before=before, limit=3):
            found += page
            before = page[-1].id
        assert found == whole
        assert [entry.subject for entry in whole] == [f"t{number}" for number in reversed(range(7))]
        for wrong in ({"limit": 0}, {"limit": 1001}, {"before": "yesterday"}, {"before": "1-1)"}, {"before": ""}):
            with pytest.raises(InvalidRequest) as caught:
                await registry.audit(**wrong)
            assert caught.value.param == next(iter(wrong))


async def test_an_unreadable_tenant_is_the_stores_failure(any_store_url: str) -> None:
    async with running(any_store_url) as (registry, store):
        await store.run(PUT, [TENANTS], ["acme", "{"])
        for asked in (registry.tenant("acme"), registry.tenants()):
            with pytest.raises(StoreUnavailable):
                await asked
