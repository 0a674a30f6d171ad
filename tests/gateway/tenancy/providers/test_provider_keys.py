"""A worker's keys, over a real store."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.secrets import ApiKeySource
from gateway.config.settings import Config
from gateway.store.store_client import Store
from gateway.tenancy.providers.provider_keys import ProviderKeys, keyless
from gateway.tenancy.providers.vault import ProviderVault
from gateway.tenancy.tenants.transactions import PROVIDERS, Entry, Place, Step, commit, read
from protos.errors import Conflict, StoreUnavailable
from tests.gateway.fleets.world import MODELS
from tests.loops import seconds_until, until

VARIABLE = "PENSTOCK_TEST_ENCRYPTION_KEY"
OLD, NEW = bytes(range(32)).hex(), bytes(range(32, 64)).hex()
FIRST, SECOND = "sk-live-first-0123456789", "sk-live-second-0123456789"


def config_of(**store: Any) -> Config:
    return msgspec.convert({"models": MODELS, "store": {"encryption_key": {"env": VARIABLE}, **store}}, Config)


class World:
    """A store with a vault, and a worker."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.vault = ProviderVault(store, config_of())
        self.worker = ProviderKeys(store, config_of().store.encryption_key)

    async def raw(self, name: str) -> bytes:
        _, (raw,) = await read(self.store, [Place(PROVIDERS, name)])
        return raw

    async def put(self, name: str, raw: bytes) -> None:
        """What somebody who can write to the store, and has no key, might do."""
        step = Step(Place(PROVIDERS, name), await self.raw(name), raw)
        assert await commit(self.store, [step], Entry("mallory", "x", name))


@contextlib.asynccontextmanager
async def world_at(url: str) -> AsyncIterator[World]:
    store = Store(url, timeout=10.0)
    try:
        yield World(store)
    finally:
        await store.aclose()


@pytest.fixture(autouse=True)
def encryption_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OLD)


async def test_a_stored_key_reaches_a_worker_and_follows_its_changes(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with world_at(store_url) as world:
            key = world.worker.key_of(ApiKeySource(stored="openai"))
            await world.worker.load()
            assert key() is None
            assert world.worker.problems == [
                "the provider key openai is not in the store; put it there with: penstock providers set openai"
            ]
            await world.vault.set_key("openai", FIRST, "cli:me")
            await world.worker.load()
            assert (key(), world.worker.problems) == (FIRST, [])
            await world.vault.set_key("openai", f"{SECOND}\n", "cli:me")
            await world.worker.load()
            assert key() == SECOND
            await world.vault.delete_key("openai", "cli:me")
            await world.worker.load()
            assert key() is None
            for seen in (await world.store.hgetall(PROVIDERS), repr(key), repr(world.worker), vars(world.worker)):
                assert FIRST not in str(seen)
                assert SECOND not in str(seen)
    assert FIRST not in caplog.text
    assert SECOND not in caplog.text


async def test_a_running_worker_heeds_a_change_within_two_seconds(store_url: str) -> None:
    async with world_at(store_url) as world:
        key = world.worker.key_of(ApiKeySource(stored="openai"))
        running = asyncio.create_task(world.worker.run())
        await until(lambda: world.worker.problems)
        await world.vault.set_key("openai", FIRST, "cli:me")
        assert await seconds_until(lambda: key() == FIRST) < 2.0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_record_that_somebody_has_changed_is_not_used(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with world_at(store_url) as world:
        of_a, of_b = (world.worker.key_of(ApiKeySource(stored=name)) for name in ("a", "b"))
        await world.vault.set_key("a", FIRST, "cli:me")
        await world.vault.set_key("b", SECOND, "cli:me")
        await world.worker.load()
        assert (of_a(), of_b()) == (FIRST, SECOND)
        # b's key under a's name, and the other way round.
        a, b = await world.raw("a"), await world.raw("b")
        await world.put("a", b)
        await world.put("b", b"nonsense")
        await world.worker.load()
        assert (of_a(), of_b()) == (None, None)
        problems = world.worker.problems
        assert "the provider key a cannot be decrypted: it was encrypted with another key or under" in problems[0]
        assert "the provider key b cannot be decrypted" in problems[1]
        await world.put("b", b'{"name":"\xff"}')
        await world.worker.load()
        assert "the provider key b cannot be decrypted" in world.worker.problems[1]
        await world.put("a", a)
        await world.worker.load()
        assert of_a() == FIRST
        # What cannot be read can still be replaced and deleted.
        await world.vault.set_key("b", FIRST, "cli:me")
        await world.put("b", b"nonsense")
        assert [known.name for known in await world.vault.keys()] == ["a"]
        assert "the provider key b cannot be read; set it anew or delete it" in caplog.text
        with pytest.raises(Conflict, match="The provider key 'b' cannot be decrypted: The gateway's store holds"):
            await world.vault.reencrypt("cli:me")
        await world.vault.delete_key("b", "cli:me")
        assert [known.name for known in await world.vault.keys()] == ["a"]


async def test_the_encryption_key_is_replaced_without_a_restart(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world_at(store_url) as world:
        key, other = (world.worker.key_of(ApiKeySource(stored=name)) for name in ("a", "b"))
        before = await world.vault.set_key("a", FIRST, "cli:me")
        monkeypatch.setenv(VARIABLE, NEW)
        await world.worker.load()
        assert key() is None
        with pytest.raises(Conflict, match="'a' cannot be decrypted"):
            await world.vault.reencrypt("cli:me")
        monkeypatch.setenv(VARIABLE, f"{NEW} {OLD}")
        await world.worker.load()
        assert key() == FIRST
        await world.vault.set_key("b", SECOND, "cli:me")
        assert await world.vault.reencrypt("cli:me") == ["a"]
        assert await world.vault.reencrypt("cli:me") == []
        monkeypatch.setenv(VARIABLE, NEW)
        await world.worker.load()
        assert (key(), other()) == (FIRST, SECOND)
        (after, _) = await world.vault.keys()
        assert (after.created_at, after.created_by) == (before.created_at, before.created_by)
        assert after.fingerprint != before.fingerprint


async def test_while_the_store_is_away_the_last_key_stays(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with world_at(store_url) as world:
        key = world.worker.key_of(ApiKeySource(stored="a"))
        await world.vault.set_key("a", FIRST, "cli:me")
        await world.worker.load()

        async def away(_: str) -> dict[bytes, bytes]:
            raise StoreUnavailable

        world.worker._store = type("Away", (), {"hgetall": staticmethod(away)})()
        await world.worker.load()
        await world.worker.load()
        assert key() == FIRST
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


async def test_the_store_is_not_asked_where_nothing_is_in_it() -> None:
    worker = ProviderKeys(None, None)  # type: ignore[arg-type]
    assert worker.key_of(None)() is None
    assert keyless(ApiKeySource(stored="a"))() is None
    await worker.load()


def test_environment_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("A_PROVIDER_KEY", FIRST)
    worker = ProviderKeys(None, None)  # type: ignore[arg-type]
    assert worker.key_of(ApiKeySource(env="A_PROVIDER_KEY"))() == FIRST
    path = tmp_path / "key"
    path.write_text(f"{FIRST}\n")
    key = worker.key_of(ApiKeySource(file=str(path)))
    key._renewed._check_seconds = 0.0  # type: ignore[attr-defined]
    assert key() == FIRST
    path.write_text(f"{SECOND}\n")
    assert key() == SECOND
    path.write_text("not a key")
    assert [key(), key()] == [SECOND, SECOND]
    path.unlink()
    assert key() == SECOND
    assert len(caplog.records) == 2
    assert f"{{file: {path}}}: the key must have" in caplog.text
    assert "not a key" not in caplog.text


def test_of_one_source_there_is_one_function() -> None:
    worker = ProviderKeys(None, None)  # type: ignore[arg-type]
    assert worker.key_of(ApiKeySource(stored="a")) is worker.key_of(ApiKeySource(stored="a"))
    assert worker.key_of(ApiKeySource(stored="a")) is not worker.key_of(ApiKeySource(stored="b"))
