"""After any sequence of changes, by several at once, records, index, names and audit trail still fit together."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.config.tenants import Limits, Tenant
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.auth.key_store import KeyChange, KeyRequest
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import ClientError
from tests.authentication import config_of

PREFIX = "penstock:{keys}:"
tenants = st.sampled_from(["default", "filed", "a", "b"])
names = st.sampled_from(["x", "y", "quickstart"])
places = st.integers(0, 5)
changes = st.one_of(
    st.tuples(st.just("create_tenant"), tenants),
    st.tuples(st.just("replace_tenant"), tenants),
    st.tuples(st.just("delete_tenant"), tenants),
    st.tuples(st.just("create_key"), names, tenants),
    st.tuples(st.just("rename_key"), places, names),
    st.tuples(st.just("expire_key"), places),
    st.tuples(st.just("revive_key"), places),
    st.tuples(st.just("rotate_key"), places, st.sampled_from([0.0, 60.0])),
    st.tuples(st.just("revoke_key"), places),
)


async def made(registry: Registry, change: tuple[Any, ...]) -> None:
    """Try a change; what may not be is refused, and anything else is a failure."""
    what, *rest = change
    keys = await registry.keys()
    if isinstance(rest[0], int):
        if not keys:
            return
        rest[0] = keys[rest[0] % len(keys)].key_id
    match what:
        case "create_tenant":
            await registry.create_tenant(Tenant(name=rest[0]), "t")
        case "replace_tenant":
            await registry.replace_tenant(Tenant(name=rest[0], limits=Limits(rpm=len(keys) + 1)), "t")
        case "delete_tenant":
            await registry.delete_tenant(rest[0], "t")
        case "create_key":
            await registry.create_key(KeyRequest(name=rest[0], tenant=rest[1]), "t")
        case "rename_key":
            await registry.update_key(rest[0], KeyChange(name=rest[1]), "t")
        case "expire_key":
            await registry._keys.edit(rest[0], lambda key, now: msgspec.structs.replace(key, expires_at=now), actor="t")
        case "revive_key":
            await registry.update_key(rest[0], KeyChange(expires_at=None), "t")
        case "rotate_key":
            await registry.rotate_key(rest[0], rest[1], "t")
        case "revoke_key":
            await registry.revoke_key(rest[0], "t")


def verify(client: Any) -> None:
    records = {
        key.decode().rpartition(":")[2]: msgspec.json.decode(client.get(key), type=ApiKey)
        for key in client.scan_iter(f"{PREFIX}key:*")
    }
    index = {name.decode(): digest.decode() for name, digest in client.hgetall(f"{PREFIX}index").items()}
    assert index == {key.key_id: digest for digest, key in records.items()}

    now = client.time()[0] + 1.0
    by_id = {key.key_id: key for key in records.values()}
    holders = {name.decode(): holder.decode() for name, holder in client.hgetall(f"{PREFIX}names").items()}
    for name, holder in holders.items():
        assert name == f"{by_id[holder].tenant}/{by_id[holder].name}"
    # Two active keys of one name there are only while one of them is being replaced, and so about to end.
    lasting = Counter((key.tenant, key.name) for key in by_id.values() if key.active(now) and key.expires_at is None)
    assert all(count == 1 for count in lasting.values())
    for key in by_id.values():
        if key.active(now) and key.expires_at is None:
            assert holders[f"{key.tenant}/{key.name}"] == key.key_id

    stored = {name.decode() for name in client.hkeys(f"{PREFIX}tenants")}
    assert "filed" not in stored
    assert {key.tenant for key in by_id.values() if key.active(now)} <= {"default", "filed", *stored}

    trail = [fields for _, fields in client.xrange(f"{PREFIX}audit")]
    actions = Counter(fields[b"action"] for fields in trail)
    assert actions[b"key.create"] + actions[b"key.rotate"] == len(by_id)
    assert actions[b"tenant.create"] >= actions[b"tenant.delete"] - 1
    # The last that was said of each record is what it is.
    said: dict[str, Any] = {}
    for fields in trail:
        after = msgspec.json.decode(fields[b"after"]) if fields[b"after"] else None
        if fields[b"action"] == b"key.rotate":
            assert after is not None
            said |= {part["id"]: part for part in after.values()}
        else:
            said[fields[b"subject"].decode()] = after
    for key in by_id.values():
        assert said[key.key_id] == msgspec.json.decode(msgspec.json.encode(key))
    for name, raw in client.hgetall(f"{PREFIX}tenants").items():
        assert said[name.decode()] == msgspec.json.decode(raw)


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(batches=st.lists(st.lists(changes, min_size=1, max_size=4), max_size=12))
@example(
    batches=[[("create_key", "x", "default")], [("rotate_key", 0, 60.0)], [("revive_key", 0)], [("revive_key", 1)]]
)
@example(
    batches=[
        [("create_tenant", "a")],
        [("create_key", "x", "a")],
        [("expire_key", 0)],
        [("delete_tenant", "a"), ("revive_key", 0)],
    ]
)
async def test_any_sequence_of_changes_keeps_everything_consistent(
    store_url: str, batches: list[list[tuple[Any, ...]]]
) -> None:
    with redis.Redis.from_url(store_url) as client:
        client.flushall()
        store = Store(store_url, timeout=10.0)
        config = config_of(tenants=[{"name": "filed"}])
        workers = [Registry(store, config) for _ in range(4)]

        async def attempt(registry: Registry, change: tuple[Any, ...]) -> None:
            with contextlib.suppress(ClientError):
                await made(registry, change)

        try:
            for batch in batches:
                await asyncio.gather(*(attempt(worker, change) for worker, change in zip(workers, batch, strict=False)))
                verify(client)
        finally:
            await store.aclose()


def test_the_check_itself_finds_what_does_not_fit(store_url: str) -> None:
    with redis.Redis.from_url(store_url) as client:
        client.hset(f"{PREFIX}index", "key_1", "00")
        with pytest.raises(AssertionError):
            verify(client)
