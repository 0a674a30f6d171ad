import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable

import pytest

from gateway.auth.keys import AmbiguousKey, ApiKey, KeyStore, digest_of, quickstart_key
from gateway.store.script import Script
from gateway.store.store import Store
from protos.errors import StoreUnavailable

EVERYTHING = Script("""
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  table.insert(found, key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    for _, part in ipairs(redis.call('HGETALL', key)) do table.insert(found, part) end
  else
    table.insert(found, redis.call('GET', key))
  end
end
return found
""")
PUT = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")


def run(url: str, use: Callable[[KeyStore, Store], Awaitable[None]], now: float = 1000.5) -> None:
    async def main() -> None:
        store = Store(url)
        try:
            await use(KeyStore(store, now=lambda: now), store)
        finally:
            await store.aclose()

    asyncio.run(main())


def test_a_key_is_random_shown_once_and_stored_as_a_hash(store_url: str) -> None:
    async def use(keys: KeyStore, store: Store) -> None:
        key, secret = await keys.create("ci", ["mixtral-8x7b", "llama*", "mixtral-8x7b"])
        assert re.fullmatch(r"sk-penstock-[A-Za-z0-9_-]{43}", secret)
        assert re.fullmatch(r"key_[0-9a-f]{12}", key.key_id)
        assert key == ApiKey(key.key_id, "ci", ("mixtral-8x7b", "llama*"), 1000.5)
        assert await keys.find(digest_of(secret.encode())) == key
        assert await keys.find(digest_of(secret.encode() + b"x")) is None
        assert await keys.list_keys() == [key]
        stored = b"\n".join(await store.run(EVERYTHING, [], []))  # type: ignore[arg-type]
        assert secret.encode() not in stored
        assert secret.removeprefix("sk-penstock-").encode() not in stored
        assert hashlib.sha256(secret.encode()).hexdigest().encode() in stored

    run(store_url, use)


def test_secrets_and_ids_differ(store_url: str) -> None:
    async def use(keys: KeyStore, _store: Store) -> None:
        made = await asyncio.gather(*(keys.create("same") for _ in range(50)))
        assert len({secret for _, secret in made}) == 50
        assert len({key.key_id for key, _ in made}) == 50
        assert {key.key_id for key in await keys.list_keys()} == {key.key_id for key, _ in made}

    run(store_url, use)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x1b[31m", "\u202e", "x" * 65, "\ud800"])
def test_names_that_would_spoil_a_terminal_are_refused(store_url: str, name: str) -> None:
    async def use(keys: KeyStore, _store: Store) -> None:
        with pytest.raises(ValueError, match="1 to 64 printable characters"):
            await keys.create(name)
        assert await keys.list_keys() == []

    run(store_url, use)


@pytest.mark.parametrize("models", [[], [""], ["a b"], ["[a]"], ["ok", "x" * 129]])
def test_malformed_model_patterns_are_refused(store_url: str, models: list[str]) -> None:
    async def use(keys: KeyStore, _store: Store) -> None:
        with pytest.raises(ValueError, match="pattern"):
            await keys.create("k", models)

    run(store_url, use)


@pytest.mark.parametrize(
    ("patterns", "model", "allowed"),
    [
        (("*",), "anything/at-all", True),
        (("m",), "m", True),
        (("m",), "M", False),
        (("m",), "m2", False),
        (("mixtral-*",), "mixtral-8x7b", True),
        (("a", "org/*"), "org/model", True),
        (("m?",), "m1", True),
        (("m?",), "m12", False),
        ((), "m", False),
    ],
)
def test_which_models_a_key_may_use(patterns: tuple[str, ...], model: str, allowed: bool) -> None:
    assert ApiKey("key_0", "k", patterns, 0.0).allows(model) is allowed


def test_revoking_by_id_or_by_an_unambiguous_name(store_url: str) -> None:
    async def use(keys: KeyStore, _store: Store) -> None:
        first, secret = await keys.create("twin")
        second, _ = await keys.create("twin")
        with pytest.raises(AmbiguousKey, match=f"2 active keys are named 'twin'.*{first.key_id}"):
            await keys.revoke("twin")
        revoked = await keys.revoke(first.key_id)
        assert revoked is not None
        assert (revoked.key_id, revoked.revoked, revoked.revoked_at) == (first.key_id, True, 1000.5)
        found = await keys.find(digest_of(secret.encode()))
        assert found == revoked
        by_name = await keys.revoke("twin")
        assert by_name is not None
        assert by_name.key_id == second.key_id
        assert await keys.revoke("twin") is None
        assert await keys.revoke("key_none") is None
        assert [key.revoked for key in await keys.list_keys()] == [True, True]

    run(store_url, use)


def test_revoking_again_keeps_the_first_time(store_url: str) -> None:
    async def use(_keys: KeyStore, store: Store) -> None:
        times = iter([1.0, 2.0, 3.0])
        keys = KeyStore(store, now=lambda: next(times))
        key, _ = await keys.create("k")
        first = await keys.revoke(key.key_id)
        version = await keys.version()
        assert await keys.revoke(key.key_id) == first
        assert await keys.version() == version

    run(store_url, use)


def test_every_change_changes_the_version(store_url: str) -> None:
    async def use(keys: KeyStore, _store: Store) -> None:
        versions = [await keys.version()]
        assert versions == [None]
        key, _ = await keys.create("a")
        versions.append(await keys.version())
        await keys.revoke(key.key_id)
        versions.append(await keys.version())
        await keys.delete_named("a")
        versions.append(await keys.version())
        assert len(set(versions)) == 4

    run(store_url, use)


def test_the_quickstart_key_replaces_the_one_before(store_url: str) -> None:
    async def use(keys: KeyStore, _store: Store) -> None:
        other, _ = await keys.create("other")
        old = await quickstart_key(keys)
        new = await quickstart_key(keys)
        assert await keys.find(digest_of(old.encode())) is None
        assert await keys.find(digest_of(new.encode())) is not None
        assert sorted(key.name for key in await keys.list_keys()) == ["other", "quickstart"]
        assert other in await keys.list_keys()

    run(store_url, use)


def test_an_unreadable_record_is_the_stores_failure(store_url: str) -> None:
    async def use(keys: KeyStore, store: Store) -> None:
        _, secret = await keys.create("k")
        digest = digest_of(secret.encode())
        await store.run(PUT, [f"penstock:{{keys}}:sha256:{digest.hex()}"], ["models", "{"])
        with pytest.raises(StoreUnavailable):
            await keys.find(digest)

    run(store_url, use)
