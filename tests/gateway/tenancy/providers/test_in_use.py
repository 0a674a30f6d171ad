"""A provider over HTTPS behind the real gateway: it sees the key of the store, and nobody else sees it."""

import logging
import secrets
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_records import KeyRequest
from gateway.tenancy.auth.key_store import KeyStore
from gateway.tenancy.providers.vault import ProviderVault
from tests.asgi import _running
from tests.certificates import Authority
from tests.harness import MODEL
from tests.loops import seconds_until
from tests.upstreams import upstream

VARIABLE = "PENSTOCK_TEST_ENCRYPTION_KEY"
FIRST, SECOND = "sk-live-first-0123456789", "sk-live-second-0123456789"


def config_of(store_url: str, address: str, ca: Path) -> Config:
    pool: dict[str, Any] = {"name": "far", "engine": "openai", "replicas": [address], "tls": {"ca": str(ca)}}
    pool["upstream"] = {"api_key": {"stored": "provider"}}
    model = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 2000, "pools": [pool]}
    store = {"url": store_url, "timeout_seconds": 10, "encryption_key": {"env": VARIABLE}}
    return msgspec.convert({"models": [model], "store": store}, Config)


async def test_a_stored_key_is_what_the_provider_sees(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, secrets.token_hex(32))
    authority = Authority(tmp_path)
    files = authority.signed()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)

    with caplog.at_level(logging.DEBUG):
        store = Store(store_url, timeout=10.0)
        _, key = await KeyStore(store).create(KeyRequest(name="test"))
        async with upstream(context) as provider:
            config = config_of(store_url, provider.url, authority.ca)
            vault = ProviderVault(store, config)
            await vault.set_key("provider", FIRST, "cli:me")
            async with _running(config, key) as client:

                def seen() -> set[str]:
                    return {heard.headers.get("authorization", "") for heard in provider.heard}

                answers = [await client.chat()]
                assert seen() == {f"Bearer {FIRST}"}
                assert {look.headers.get("authorization") for look in provider.looks} == {f"Bearer {FIRST}"}
                await vault.set_key("provider", SECOND, "cli:me")
                fleet = client.gateway.models[MODEL].fleet
                key_of = client.gateway._provider_keys._keys
                assert await seconds_until(lambda: [source() for source in key_of.values()] == [SECOND]) < 2.0
                answers.append(await client.chat())
                assert seen() == {f"Bearer {FIRST}", f"Bearer {SECOND}"}
                assert all(answer.status == 200 for answer in answers)
                shown = [str([answer.body, answer.headers]) for answer in answers]
                shown += [repr(fleet.statuses()), repr(vars(client.gateway)), repr(config)]
                assert not any(FIRST in text or SECOND in text for text in shown)
        await store.aclose()
    assert FIRST not in caplog.text
    assert SECOND not in caplog.text
