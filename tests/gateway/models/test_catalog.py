"""The names that a model is found by: in the catalog, and through the whole application."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.config.models.settings import Model
from gateway.models.adapter_models import AdapterModels
from gateway.models.catalog import ModelCatalog
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ModelNotFound, PermissionDenied
from tests.asgi import gateway_of
from tests.harness import MODEL, engine_of
from tests.models import CALLER, model_of

ALIASES: dict[str, Any] = {"model_fields": {"aliases": ["gpt-4o", "gpt-4o-mini"]}}


BASE = model_of()


def catalog_of(
    *names: str, aliases: Mapping[str, str] | None = None, adapters: Mapping[str, tuple[str, ...]] | None = None
) -> ModelCatalog:
    """A catalog of models of these names; `aliases` are to names, `adapters` by the name of their model."""
    models = {name: replace(BASE, name=name) for name in names}
    pool = {"name": "p", "engine": "simulated", "replicas": ["unix:/nowhere"]}
    configured = [
        {"name": name, "tokenizer": "mistral-tekken", "context": 1000, "pools": [pool]}
        | {"adapters": [{"name": adapter, "path": f"/{adapter}"} for adapter in (adapters or {}).get(name, ())]}
        for name in names
    ]
    return ModelCatalog(
        models,
        {alias: models[name] for alias, name in (aliases or {}).items()},
        AdapterModels(models, msgspec.convert(configured, list[Model])),
    )


def shown(model: ServedModel | None) -> str | None:
    return None if model is None else model.shown


def may_use(*models: str) -> Caller:
    return replace(CALLER, key=msgspec.structs.replace(CALLER.key, models=models))


def test_a_models_own_name_goes_before_an_alias_and_that_before_an_adapter() -> None:
    catalog = catalog_of("a", "b", "a:x", aliases={"b": "a", "c": "b", "a:y": "b"}, adapters={"a": ("x", "y", "z")})
    found = {name: shown(catalog.find(name)) for name in ("a", "b", "c", "a:x", "a:y", "a:z", "b:x", "c:x", "", "A")}
    assert found == {
        "a": "a",
        "b": "b",
        "c": "b",
        "a:x": "a:x",
        "a:y": "b",
        "a:z": "a:z",
        "b:x": None,
        "c:x": None,
        "": None,
        "A": None,
    }
    own, adapted = catalog.find("a:x"), catalog.find("a:z")
    assert own is catalog.models["a:x"]
    assert own.adapter is None
    assert adapted is not None
    assert (adapted.name, adapted.adapter_name) == ("a", "z")


def test_a_model_that_is_not_there_is_named_in_bounded_words() -> None:
    catalog = catalog_of("a")
    for name in ("b", "", "b" * 128, "b" * 100_000):
        with pytest.raises(ModelNotFound) as caught:
            catalog.require(CALLER, name)
        assert caught.value.param == "model"
        assert name[:128] in caught.value.message
        assert len(caught.value.message) < 256


def test_a_caller_gets_only_what_key_and_tenant_allow() -> None:
    catalog = catalog_of("a", aliases={"alias": "a"}, adapters={"a": ("x",)})
    for models, allowed in ((("a",), ("a", "alias")), (("a:*",), ("a:x",)), (("*",), ("a", "alias", "a:x"))):
        for name in ("a", "alias", "a:x"):
            if name in allowed:
                assert shown(catalog.require(may_use(*models), name)) == ("a:x" if name == "a:x" else "a")
                continue
            with pytest.raises(PermissionDenied) as caught:
                catalog.require(may_use(*models), name)
            assert caught.value.param == "model"
    # The name of an alias does not say what a key may use.
    with pytest.raises(PermissionDenied):
        catalog.require(may_use("alias"), "alias")


def test_every_name_is_listed_once() -> None:
    catalog = catalog_of("a", "b", aliases={"alias": "a"}, adapters={"a": ("x",)})
    assert [(name, model.shown) for name, model in catalog.named()] == [
        ("a", "a"),
        ("b", "b"),
        ("a:x", "a:x"),
        ("alias", "a"),
    ]
    assert all(catalog.find(name) is model for name, model in catalog.named())


async def test_an_alias_is_another_name(store_url: str) -> None:
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


async def test_scopes_and_limits_go_by_the_models_own_name(store_url: str) -> None:
    tenant = {"name": "acme", "models": [MODEL], "model_limits": {MODEL: {"max_output_tokens": 4}}}
    async with gateway_of(store_url, engine_of(), models=[MODEL], tenant=tenant, **ALIASES) as client:
        assert (await client.chat(model="gpt-4o", max_tokens=5)).error["code"] == "token_limit_exceeded"
        assert (await client.chat(model="gpt-4o", max_tokens=4)).status == 200
    async with gateway_of(store_url, engine_of(), models=["gpt-*"], **ALIASES) as client:
        assert (await client.chat(model="gpt-4o")).status == 403
        assert (await client.request("GET", "/v1/models/gpt-4o")).status == 403
        assert (await client.request("GET", "/v1/models")).json["data"] == []
