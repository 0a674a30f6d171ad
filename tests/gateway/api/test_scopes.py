"""What a key may do over HTTP beyond being good: endpoints, models of its tenant, and its time."""

from typing import Any

import pytest

from gateway.config.tenants import Tenant
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_records import Endpoint
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from gateway.tenancy.tenants.tenant_registry import Registry
from tests.asgi import CHAT, COMPLETIONS, HELLO, Answer, Client, gateway_of
from tests.authentication import config_of
from tests.harness import MODEL, engine_of

BODIES: dict[str, tuple[str, str, Any]] = {
    "chat": ("POST", CHAT, {"model": MODEL, "messages": HELLO, "max_tokens": 2}),
    "completions": ("POST", COMPLETIONS, {"model": MODEL, "prompt": "Hello", "max_tokens": 2}),
    "models": ("GET", f"/v1/models/{MODEL}", b""),
    "moderations": ("POST", "/v1/moderations", {"input": "Hello"}),
}


async def answer(client: Client, secret: str, endpoint: str) -> Answer:
    method, path, body = BODIES[endpoint]
    return await client.request(method, path, body, [(b"authorization", b"Bearer " + secret.encode())])


@pytest.mark.parametrize("allowed", ["chat", "completions", "models", "moderations"])
async def test_a_key_for_one_endpoint(store_url: str, allowed: Endpoint) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        store = Store(store_url, timeout=10.0)
        _, secret = await KeyStore(store).create(KeyRequest(name="k", endpoints=(allowed,)))
        await store.aclose()
        for endpoint in BODIES:
            found = await answer(client, secret, endpoint)
            if endpoint == allowed:
                assert found.status == 200
            else:
                assert found.status == 403
                assert found.error["code"] == "endpoint_not_allowed"
                assert "This API key may not use /v1/" in found.error["message"]
        listing = await client.request("GET", "/v1/models", b"", [(b"authorization", b"Bearer " + secret.encode())])
        assert listing.status == (200 if allowed == "models" else 403)


async def test_a_tenants_models_bound_those_of_its_keys(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        store = Store(store_url, timeout=10.0)
        await Registry(store, config_of()).create_tenant(Tenant(name="acme", models=("llama-*",)), "t")
        _, secret = await KeyStore(store).create(KeyRequest(name="k", tenant="acme"))
        _, expired = await KeyStore(store).create(KeyRequest(name="e", expires_at=1.0))
        _, orphan = await KeyStore(store).create(KeyRequest(name="o", tenant="gone"))
        await store.aclose()
        for endpoint in BODIES:
            if endpoint != "moderations":  # which is about filters, and not about a model
                refused = await answer(client, secret, endpoint)
                assert (refused.status, refused.error["code"]) == (403, "model_not_allowed")
            ended = await answer(client, expired, endpoint)
            assert (ended.status, ended.error["code"]) == (401, "invalid_api_key")
            assert ended.error["message"] == "This API key has expired."
            left = await answer(client, orphan, endpoint)
            assert (left.status, left.error["code"]) == (403, "tenant_gone")
        listing = await client.request("GET", "/v1/models", b"", [(b"authorization", b"Bearer " + secret.encode())])
        assert listing.json["data"] == []
