import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import ApiKey, KeyRequest, KeyStore, digest_of, quickstart_key
from protos.errors import Conflict, KeyNotFound, StoreUnavailable

EVERYTHING = Script("""
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  table.insert(found, key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    for _, part in ipairs(redis.call('HGETALL', key)) do table.insert(found, part) end
  elseif kind == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      for _, part in ipairs(entry[2]) do table.insert(found, part) end
    end
  else
    table.insert(found, redis.call('GET', key))
  end
end
return found
""")
PUT = Script("return redis.call('SET', KEYS[1], ARGV[1])")


@contextlib.asynccontextmanager
async def running(url: str) -> AsyncIterator[tuple[KeyStore, Store]]:
    store = Store(url, timeout=10.0)
    try:
        yield KeyStore(store), store
    finally:
        await store.aclose()


def named(name: str, **fields: object) -> KeyRequest:
    return KeyRequest(name=name, **fields)  # type: ignore[arg-type]


async def find(keys: KeyStore, secret: str) -> ApiKey | None:
    return (await keys.find(digest_of(secret.encode()))).key


async def test_a_key_is_random_shown_once_and_stored_as_a_hash(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, store):
        asked = named("ci", tenant="acme", models=("mixtral-8x7b", "llama*"), metadata={"team": "x"}, expires_at=9e9)
        key, secret = await keys.create(asked)
        assert re.fullmatch(r"sk-penstock-[A-Za-z0-9_-]{43}", secret)
        assert re.fullmatch(r"key_[0-9a-f]{12}", key.key_id)
        assert key == ApiKey(
            key_id=key.key_id,
            name="ci",
            tenant="acme",
            models=("mixtral-8x7b", "llama*"),
            metadata={"team": "x"},
            created_at=key.created_at,
            expires_at=9e9,
        )
        assert abs(key.created_at - time.time()) < 60
        assert await find(keys, secret) == key
        assert await find(keys, secret + "x") is None
        assert await keys.list_keys() == [key]
        assert await keys.get(key.key_id) == key
        stored = b"\n".join(await store.run(EVERYTHING, [], []))  # type: ignore[arg-type]
        assert secret.encode() not in stored
        assert secret.removeprefix("sk-penstock-").encode() not in stored
        assert hashlib.sha256(secret.encode()).hexdigest().encode() in stored


async def test_secrets_and_ids_differ(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        made = await asyncio.gather(*(keys.create(named(f"k{number}")) for number in range(50)))
        assert len({secret for _, secret in made}) == 50
        assert len({key.key_id for key, _ in made}) == 50
        assert {key.key_id for key in await keys.list_keys()} == {key.key_id for key, _ in made}


async def test_a_store_with_more_keys_than_one_reading_takes(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        for start in range(0, 1200, 100):
            await asyncio.gather(*(keys.create(named(f"k{start + number}")) for number in range(100)))
        found = await keys.list_keys()
        assert len({key.name for key in found}) == 1200
        assert [key.created_at for key in found] == sorted(key.created_at for key in found)


async def test_one_name_of_a_tenant_has_one_active_key(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        first, _ = await keys.create(named("ci"))
        with pytest.raises(Conflict, match=f"name: {first.key_id}, an active key of the tenant 'default', has it"):
            await keys.create(named("ci"))
        await keys.create(named("ci", tenant="acme"))
        await keys.revoke(first.key_id, actor="t")
        second, _ = await keys.create(named("ci"))
        with pytest.raises(Conflict):
            await keys.create(named("ci"))
        await keys.edit(second.key_id, lambda key, now: msgspec.structs.replace(key, expires_at=now), actor="t")
        third, _ = await keys.create(named("ci"))

        # A name that was given away meanwhile keeps an expired key from coming back under it.
        def revived(key: ApiKey, _: float) -> ApiKey:
            return msgspec.structs.replace(key, expires_at=None)

        with pytest.raises(Conflict, match=third.key_id):
            await keys.edit(second.key_id, revived, actor="t")
        await keys.edit(second.key_id, lambda key, _: msgspec.structs.replace(key, name="old"), actor="t")
        assert (await keys.edit(second.key_id, revived, actor="t")).active(time.time())


async def test_of_many_who_want_a_name_at_once_one_gets_it(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        made = await asyncio.gather(*(keys.create(named("ci")) for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(one, tuple) for one in made) == 1
        assert sum(isinstance(one, Conflict) for one in made) == 19
        assert len(await keys.list_keys()) == 1


async def test_a_name_moves_with_its_key(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        first, _ = await keys.create(named("a"))
        second, _ = await keys.create(named("b"))
        with pytest.raises(Conflict, match="name: "):
            await keys.edit(first.key_id, lambda key, _: msgspec.structs.replace(key, name="b"), actor="t")
        assert (await keys.get(first.key_id)).name == "a"
        await keys.edit(first.key_id, lambda key, _: msgspec.structs.replace(key, name="c"), actor="t")
        await keys.edit(second.key_id, lambda key, _: msgspec.structs.replace(key, name="a"), actor="t")
        assert sorted((key.name, key.key_id) for key in await keys.list_keys()) == [
            ("a", second.key_id),
            ("c", first.key_id),
        ]


async def test_a_rotation_gives_a_new_secret_and_lets_both_work_for_a_while(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        old, old_secret = await keys.create(named("ci", models=("m",), metadata={"a": "b"}, endpoints=("chat",)))
        new, new_secret = await keys.rotate(old.key_id, 60.0, actor="t")
        assert new_secret != old_secret
        assert new == msgspec.structs.replace(
            old, key_id=new.key_id, created_at=new.created_at, replaces=old.key_id, lineage=old.key_id
        )
        assert new.limit_scope == old.limit_scope == f"key:{old.key_id}"
        ending = await find(keys, old_secret)
        assert ending is not None
        assert ending.expires_at is not None
        assert ending.expires_at == pytest.approx(new.created_at + 60.0)
        assert ending == msgspec.structs.replace(old, expires_at=ending.expires_at)
        assert await find(keys, new_secret) == new
        with pytest.raises(Conflict, match=new.key_id):
            await keys.rotate(old.key_id, 60.0, actor="t")
        newest, _ = await keys.rotate(new.key_id, 0.0, actor="t")
        assert (await keys.get(new.key_id)).expired(newest.created_at)
        for ended in (new.key_id, (await keys.revoke(newest.key_id, actor="t")).key_id):
            with pytest.raises(Conflict, match=r"has (expired|been revoked)"):
                await keys.rotate(ended, 60.0, actor="t")


async def test_a_rotation_never_prolongs_a_key(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        ends = time.time() + 30.0
        old, _ = await keys.create(named("ci", expires_at=ends))
        new, _ = await keys.rotate(old.key_id, 60.0, actor="t")
        assert (await keys.get(old.key_id)).expires_at == new.expires_at == ends


async def test_of_two_rotations_at_once_one_happens(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        old, _ = await keys.create(named("ci"))
        done = await asyncio.gather(
            *(keys.rotate(old.key_id, 9.0, actor="t") for _ in range(8)), return_exceptions=True
        )
        assert sum(isinstance(one, tuple) for one in done) == 1
        assert len(await keys.list_keys()) == 2


async def test_revoking_is_for_good_and_keeps_the_first_time(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        key, secret = await keys.create(named("k"))
        first = await keys.revoke(key.key_id, actor="t")
        assert first.revoked_at is not None
        assert first.revoked_at >= key.created_at
        assert await find(keys, secret) == first
        version, _ = await keys.version()
        assert await keys.revoke(key.key_id, actor="t") == first
        assert (await keys.version())[0] == version
        with pytest.raises(KeyNotFound, match="no key with the id 'key_none'"):
            await keys.revoke("key_none", actor="t")


async def test_concurrent_changes_lose_none(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, store):
        key, _ = await keys.create(named("k"))

        def with_entry(number: int) -> Callable[[ApiKey, float], ApiKey]:
            return lambda key, _: msgspec.structs.replace(key, metadata={**key.metadata, f"n{number}": "x"})

        elsewhere = KeyStore(store)
        await asyncio.gather(
            *(one.edit(key.key_id, with_entry(n), actor="t") for n, one in enumerate([keys, elsewhere] * 10))
        )
        assert set((await keys.get(key.key_id)).metadata) == {f"n{number}" for number in range(20)}


async def test_a_change_that_loses_against_a_revocation_does_not_undo_it(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        for number in range(10):
            key, _ = await keys.create(named(f"k{number}"))
            with contextlib.suppress(Conflict):
                await asyncio.gather(
                    keys.edit(key.key_id, lambda key, _: msgspec.structs.replace(key, metadata={"a": "b"}), actor="t"),
                    keys.revoke(key.key_id, actor="t"),
                    keys.rotate(key.key_id, 5.0, actor="t"),
                )
            assert (await keys.revoke(key.key_id, actor="t")).revoked


async def test_every_change_changes_the_version(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        versions = [await keys.version()]
        assert versions[0][0] == b""
        key, _ = await keys.create(named("a"))
        versions.append(await keys.version())
        await keys.rotate(key.key_id, 5.0, actor="t")
        versions.append(await keys.version())
        await keys.revoke(key.key_id, actor="t")
        versions.append(await keys.version())
        await keys.delete_named("a")
        versions.append(await keys.version())
        assert len({version for version, _ in versions}) == 5
        times = [now for _, now in versions]
        assert times == sorted(times)
        assert abs(times[0] - time.time()) < 60


async def test_the_quickstart_key_replaces_the_one_before(any_store_url: str) -> None:
    async with running(any_store_url) as (keys, _):
        other, _ = await keys.create(named("other"))
        old = await quickstart_key(keys)
        new = await quickstart_key(keys)
        assert await find(keys, old) is None
        assert await find(keys, new) is not None
        assert sorted(key.name for key in await keys.list_keys()) == ["other", "quickstart"]
        assert other in await keys.list_keys()
        await asyncio.gather(*(quickstart_key(keys) for _ in range(5)))
        assert sorted(key.name for key in await keys.list_keys()) == ["other", "quickstart"]


@pytest.mark.parametrize("record", ["{", "{}", '{"id": "key_1", "name": 5, "created_at": 1}', "\xff"])
async def test_an_unreadable_record_is_the_stores_failure(any_store_url: str, record: str) -> None:
    async with running(any_store_url) as (keys, store):
        _, secret = await keys.create(named("k"))
        digest = digest_of(secret.encode())
        await store.run(PUT, [f"penstock:{{keys}}:key:{digest.hex()}"], [record.encode("latin-1")])
        with pytest.raises(StoreUnavailable):
            await keys.find(digest)
        with pytest.raises(StoreUnavailable):
            await keys.list_keys()
