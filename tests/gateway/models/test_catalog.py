"""The names that a model is found by, through the whole application."""

from typing import Any

from tests.asgi import gateway_of
from tests.harness import MODEL, bounded, engine_of

ALIASES: dict[str, Any] = {"model_fields": {"aliases": ["gpt-4o", "gpt-4o-mini"]}}


def test_an_alias_is_another_name(store_url: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of(), **ALIASES) as client:
            for name in (MODEL, "gpt-4o", "gpt-4o-mini"):
                answer = await client.chat(model=name)
                assert (answer.status, answer.json["model"]) == (200, MODEL)
                chunks = (await client.chat(model=name, stream=True)).events[:-1]
                assert {chunk["model"] for chunk in chunks} == {MODEL}
                found = await client.request("GET", f"/v1/models/{name}")
                assert (found.status, found.json["id"]) == (200, name)
            listed = (await client.request("GET", "/v1/models")).json["data"]
            assert [model["id"] for model in listed] == [MODEL, "gpt-4o", "gpt-4o-mini"]
            assert (await client.chat(model="gpt-4")).error["code"] == "model_not_found"

    bounded(main)


def test_scopes_and_limits_go_by_the_models_own_name(store_url: str) -> None:
    async def main() -> None:
        tenant = {"name": "acme", "models": [MODEL], "model_limits": {MODEL: {"max_output_tokens": 4}}}
        async with gateway_of(store_url, engine_of(), models=[MODEL], tenant=tenant, **ALIASES) as client:
            assert (await client.chat(model="gpt-4o", max_tokens=5)).error["code"] == "token_limit_exceeded"
            assert (await client.chat(model="gpt-4o", max_tokens=4)).status == 200
        async with gateway_of(store_url, engine_of(), models=["gpt-*"], **ALIASES) as client:
            assert (await client.chat(model="gpt-4o")).status == 403
            assert (await client.request("GET", "/v1/models/gpt-4o")).status == 403
            assert (await client.request("GET", "/v1/models")).json["data"] == []

    bounded(main)
