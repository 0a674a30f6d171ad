"""`model: NAME:ADAPTER` over HTTP, with real sessions to replicas that load adapters."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from protos.features import Feature
from tests.asgi import CHAT, HELLO, Answer, Client, gateway_of
from tests.fakes import INFO, WedgedEngine
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until

LISTED = {"adapters": [{"name": "known"}, {"name": "told", "path": "/loras/told"}]}


async def ask(client: Client, model: str, **fields: Any) -> Answer:
    return await client.chat(model=model, seed=1, **fields)


def text_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    text: str = answer.json["choices"][0]["message"]["content"]
    return text


async def test_an_adapter_answers_under_the_name_that_was_asked_for(store_url: str) -> None:
    engine = engine_of(corpus=readable_corpus(), adapters=("known",), max_adapters=2)
    async with gateway_of(store_url, engine, model_fields=LISTED) as client:
        await client.proven(1)
        plain, known, told = [await ask(client, name) for name in (MODEL, f"{MODEL}:known", f"{MODEL}:told")]
        assert len({text_of(plain), text_of(known), text_of(told)}) == 3
        assert [one.json["model"] for one in (plain, known, told)] == [MODEL, f"{MODEL}:known", f"{MODEL}:told"]
        stream = await ask(client, f"{MODEL}:told", stream=True)
        assert {event["model"] for event in stream.events[:-1]} == {f"{MODEL}:told"}
        view = client.gateway.models[MODEL].fleet.candidates
        await until(lambda: view()[0].adapters == {"known", "told"})


async def test_adapters_do_not_share_cached_prefixes(store_url: str) -> None:
    engine = engine_of(adapters=("known",), max_adapters=2)
    async with gateway_of(store_url, engine, model_fields=LISTED) as client:
        await client.proven(1)
        messages = [{"role": "user", "content": "river " * 300}]
        names = (MODEL, MODEL, f"{MODEL}:known", f"{MODEL}:told", f"{MODEL}:known")
        cached = []
        for name in names:
            usage = (await ask(client, name, messages=messages)).json["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"] > 0)
        assert cached == [False, True, False, False, True]


@pytest.mark.parametrize("name", ["nobody", "", "known:x", "known ", "../known", "x" * 300, "unlisted"])
async def test_an_adapter_that_is_not_there(store_url: str, name: str) -> None:
    engine = engine_of(adapters=("known", "unlisted"), max_adapters=2)
    async with gateway_of(store_url, engine, model_fields=LISTED) as client:
        await client.proven(1)
        answer = await ask(client, f"{MODEL}:{name}"[:250])
        assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_unlisted_ones_that_replicas_know_where_they_are_allowed(store_url: str) -> None:
    engine = engine_of(adapters=("unlisted",), max_adapters=2)
    async with gateway_of(store_url, engine, model_fields={"allow_unlisted": True}) as client:
        await client.proven(1)
        answer = await ask(client, f"{MODEL}:unlisted")
        assert answer.json["model"] == f"{MODEL}:unlisted"
        assert (await ask(client, f"{MODEL}:nobody")).status == 404
        listing = (await client.request("GET", "/v1/models")).json["data"]
        assert [one["id"] for one in listing] == [MODEL, f"{MODEL}:unlisted"]


async def test_a_model_with_a_colon_of_its_own(store_url: str) -> None:
    engine = engine_of(model="a:b", adapters=("known",), max_adapters=1)
    fields = {"name": "a:b", "adapters": [{"name": "known"}]}
    async with gateway_of(store_url, engine, model_fields=fields) as client:
        await until(lambda: client.gateway.models["a:b"].fleet.candidates())
        assert [(await ask(client, name)).status for name in ("a:b", "a:b:known", "a", "a:known")] == [
            200,
            200,
            404,
            404,
        ]


async def test_what_a_key_may_use_is_matched_with_the_whole_name(store_url: str) -> None:
    engine = engine_of(adapters=("known",), max_adapters=2)
    async with gateway_of(store_url, engine, model_fields=LISTED) as client:
        await client.proven(1)
        store = Store(store_url, timeout=10.0)
        names = [MODEL, f"{MODEL}:known", f"{MODEL}:told"]
        for patterns, allowed in (
            ((MODEL,), [200, 403, 403]),
            ((f"{MODEL}:*",), [403, 200, 200]),
            ((MODEL, f"{MODEL}:told"), [200, 403, 200]),
            (("*",), [200, 200, 200]),
        ):
            _, secret = await KeyStore(store).create(KeyRequest(name=str(patterns), models=patterns))
            headers = [(b"authorization", b"Bearer " + secret.encode())]
            body: dict[str, Any] = {"messages": HELLO, "max_tokens": 2}
            found = [(await client.request("POST", CHAT, body | {"model": one}, headers)).status for one in names]
            assert found == allowed
            listing = (await client.request("GET", "/v1/models", b"", headers)).json["data"]
            shown = [name for name, status in zip(names, allowed, strict=True) if status == 200]
            assert [one["id"] for one in listing] == shown
            assert all(one.get("parent") == (MODEL if ":" in one["id"] else None) for one in listing)
            one = await client.request("GET", f"/v1/models/{MODEL}:told", b"", headers)
            assert one.status == allowed[2]
        await store.aclose()


async def test_only_replicas_that_can_get_it(store_url: str) -> None:
    readable = {"corpus": readable_corpus(), "max_adapters": 1}
    engines = engine_of(), engine_of(adapters=("known",), **readable), engine_of(**readable)
    async with gateway_of(store_url, *engines, model_fields=LISTED) as client:
        await client.proven(3)
        fleet = client.gateway.models[MODEL].fleet
        lora = Feature.LORA.value
        assert [view.id for view in fleet.candidates((), lora, "known")] == ["pool/1"]
        assert [view.id for view in fleet.candidates((), lora, "told")] == ["pool/1", "pool/2"]
        assert [view.id for view in fleet.candidates(["pool/1"], lora, "told")] == ["pool/2"]
        assert text_of(await ask(client, f"{MODEL}:known")) != text_of(await ask(client, f"{MODEL}:told"))


@pytest.mark.parametrize("engine", [engine_of, lambda: engine_of(max_adapters=1)])
async def test_a_listed_adapter_that_no_replica_can_run(store_url: str, engine: Any) -> None:
    async with gateway_of(store_url, engine(), model_fields={"adapters": [{"name": "known"}]}) as client:
        await client.proven(1)
        answer = await ask(client, f"{MODEL}:known")
        assert (answer.status, answer.error["param"]) == (400, "model")
        assert "'known' cannot be used" in answer.error["message"]


@pytest.mark.parametrize("policy", ["auto", "round_robin", "power_of_two"])
async def test_each_adapter_stays_on_few_replicas(store_url: str, policy: str) -> None:
    names = [f"a{number}" for number in range(12)]
    fields = {"adapters": [{"name": name, "path": f"/loras/{name}"} for name in names]}
    info = replace(INFO, features=Feature.TOKENS | Feature.LORA)
    engines = [WedgedEngine(info) for _ in range(4)]
    async with gateway_of(store_url, *engines, model_fields=fields, routing={"policy": policy}) as client:
        await client.proven(4)
        for _ in range(5):
            for name in names:
                assert (await ask(client, f"{MODEL}:{name}")).status == 200
    homes: Counter[str] = Counter()
    for name in names:
        at = [i for i, one in enumerate(engines) if any(s.adapter and s.adapter.name == name for s in one.answered)]
        assert len(at) == 1
        homes[str(at[0])] += 1
    assert len(homes) >= 3
    salts = {submit.cache_salt for one in engines for submit in one.answered if submit.adapter is not None}
    assert salts == {f"default:{name}" for name in names}
