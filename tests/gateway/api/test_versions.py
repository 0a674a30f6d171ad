"""What divides requests between a model's versions, through every API and to every kind of pool."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import redis
from msgspec.structs import replace

from gateway.rollouts.split_note import NOTE_FILE
from gateway.store.embedded import EmbeddedStore
from routing.health.probe import PROBE
from routing.rollouts.split import CHANGED, SPLITS, Split
from tests.asgi import CHAT, Answer, Client, _running, gateway_of
from tests.fakes import INFO, SilentEngine
from tests.gateway.api.embedding_upstream import Embedder
from tests.gateway.telemetry.test_answer_record import told, watched
from tests.harness import MODEL, engine_of, serving
from tests.loops import until
from tests.upstreams import ANSWER, plain, upstream

HEADER = "x-penstock-version"
SPLIT = Split(model=MODEL, stable="v1", candidate="v2", share=0.5, salt="one", epoch=1)


async def put(client: Client, store_url: str, split: Split) -> None:
    with redis.Redis.from_url(store_url) as store:
        store.hset(SPLITS, split.model, msgspec.json.encode(split))
        store.publish(CHANGED, b"")
    versions = client.gateway.models[split.model].versions
    assert versions is not None
    await until(lambda: versions.split == split)


def pool(name: str, version: str, address: str, **fields: Any) -> dict[str, Any]:
    engine = {"engine": "openai"} if address.startswith("http") else {"engine": "simulated", "shape": {"tp": 2}}
    where = address if address.startswith("http") else f"grpc://{address}"
    return {"name": name, "version": version, "replicas": [where], **engine, **fields}


@contextlib.asynccontextmanager
async def of_two(store_url: str, **fields: Any) -> AsyncIterator[Client]:
    """A gateway before a replica of each version."""
    async with contextlib.AsyncExitStack() as stack:
        pools = []
        for number, version in enumerate(("v1", "v2")):
            engine = engine_of(version=version, max_adapters=1)
            _, address = await stack.enter_async_context(serving(engine))
            pools.append(pool(f"p{number}", version, address))
        model = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 2000, "pools": pools, **fields}
        yield await stack.enter_async_context(gateway_of(store_url, more_models=[model]))


def version(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return answer.headers[HEADER]


def said(*contents: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content} for content in contents]


async def test_each_key_keeps_to_its_version(store_url: str) -> None:
    """A conversation's later requests, whatever its instructions; a user; a header's value; a tenant's requests all."""
    async with of_two(store_url) as client:
        assert {version(await client.chat(messages=said(f"{n}"))) for n in range(8)} == {"v1"}
        await put(client, store_url, SPLIT)
        found = {n: version(await client.chat(messages=said(f"{n}"))) for n in range(8)}
        assert set(found.values()) == {"v1", "v2"}
        for n, first in found.items():
            later = [{"role": "system", "content": "Be brief."}, *said(f"{n}", "more", "and more")]
            assert version(await client.chat(messages=later)) == first
        await put(client, store_url, replace(SPLIT, by="user", epoch=2))
        users = {n: version(await client.chat(user=f"{n}")) for n in range(8)}
        assert set(users.values()) == {"v1", "v2"}
        for n, first in users.items():
            assert version(await client.chat(safety_identifier=f"{n}", messages=said("else"))) == first
        await put(client, store_url, replace(SPLIT, by="header", header="x-team", epoch=3))
        key = (b"authorization", b"Bearer " + client.key.encode())
        body = {"model": MODEL, "prompt": "x", "max_tokens": 1}
        teams = [
            version(await client.request("POST", "/v1/completions", body, [key, (b"x-team", b"%d" % n)]))
            for n in (*range(8), *range(8))
        ]
        assert teams[:8] == teams[8:] and set(teams) == {"v1", "v2"}
        await put(client, store_url, replace(SPLIT, by="tenant", epoch=4))
        assert len({version(await client.chat(messages=said(f"{n}"))) for n in range(8)}) == 1


async def test_a_conversation_of_responses_stays_at_its_version(store_url: str) -> None:
    async with of_two(store_url) as client:
        await put(client, store_url, SPLIT)
        chosen = set()
        for n in range(6):
            body: dict[str, Any] = {"model": MODEL, "input": f"{n}", "max_output_tokens": 16}
            answer = await client.request("POST", "/v1/responses", body)
            first = version(answer)
            chosen.add(first)
            for turn in range(2):
                body |= {"input": f"turn {turn}", "previous_response_id": answer.json["id"]}
                body |= {"instructions": f"instructions {turn}"}
                answer = await client.request("POST", "/v1/responses", body)
                assert version(answer) == first
        assert chosen == {"v1", "v2"}


async def test_all_prompts_of_a_request_and_adapters_go_by_version(store_url: str) -> None:
    adapters = [{"name": "fr", "path": "/adapters/fr"}]
    async with of_two(store_url, adapters=adapters) as client:
        await put(client, store_url, replace(SPLIT, share=1.0))
        several = await client.complete(prompt=["one", "two", "three"], max_tokens=3)
        assert version(several) == "v2"
        assert len(several.json["choices"]) == 3
        assert version(await client.chat(model=f"{MODEL}:fr")) == "v2"


async def test_upstreams_embeddings_and_fallbacks_go_by_version(store_url: str) -> None:
    """With each version's default parameters in what its upstream is asked."""
    async with upstream() as old, upstream() as new, upstream() as vectors:
        for fake in (old, new):
            fake.behaves = plain(ANSWER)
        Embedder(vectors)
        pools = [pool("a", "v1", old.url), pool("b", "v2", new.url)]
        pins = {"v2": {"sampling": {"temperature": 0.25, "top_p": 0.5}}}
        relayed = {"name": "relayed", "context": 2000, "pools": pools, "versions": pins}
        embedding = {
            "name": "vectors",
            "context": 2000,
            "pools": [pool("a", "v1", old.url), pool("b", "v2", vectors.url)],
            "stable": "v2",
        }
        away = {"name": "away", "context": 2000, "fallbacks": {"models": ["relayed"]}}
        away |= {"pools": [{"name": "none", "engine": "openai", "replicas": ["http://127.0.0.1:9/v1"]}]}
        async with gateway_of(store_url, more_models=[relayed, embedding, away]) as client:
            assert version(await client.chat(model="relayed", temperature=1)) == "v1"
            await put(client, store_url, replace(SPLIT, model="relayed", share=1.0))
            assert version(await client.chat(model="relayed", temperature=1)) == "v2"
            asked = orjson.loads(new.heard[-1].body)
            assert (asked["temperature"], asked["top_p"]) == (1, 0.5)
            fallen = await client.chat(model="away")
            assert (version(fallen), fallen.headers["x-penstock-fallback"]) == ("v2", "relayed")
            made = await client.request("POST", "/v1/embeddings", {"model": "vectors", "input": "x"})
            assert version(made) == "v2"
            assert len(old.heard) == 1


async def test_a_replica_with_another_tokenizer_than_its_versions_is_not_used(store_url: str) -> None:
    pins = {"v2": {"tokenizer_hash": "0123456789abcdef"}}
    async with contextlib.AsyncExitStack() as stack:
        pools = []
        for number, (name, told) in enumerate((("v1", ""), ("v2", "fedcba9876543210"))):
            engine = engine_of(version=name, tokenizer_hash=told)
            _, address = await stack.enter_async_context(serving(engine))
            pools.append(pool(f"p{number}", name, address))
        model = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 2000, "pools": pools, "versions": pins}
        client = await stack.enter_async_context(gateway_of(store_url, more_models=[model]))
        fleet = client.gateway.models[MODEL].fleet
        await until(lambda: "p1/0" in fleet.problems())
        assert fleet.problems()["p1/0"] == (
            "its tokenizer is another than that of v2: hash fedcba9876543210, here 0123456789abcdef"
        )
        await put(client, store_url, replace(SPLIT, share=1.0))
        assert version(await client.chat()) == "v1"


async def test_records_say_which_version_answered_or_failed(store_url: str) -> None:
    """Of a failure too, and where another version or a fallback hides it from the client."""
    async with upstream() as old, upstream() as new, upstream() as apart:
        old.behaves = apart.behaves = plain(ANSWER)
        new.behaves = plain(b"{}", "500 Internal Server Error")
        fields = {"context": 2000, "pools": [pool("a", "v1", old.url), pool("b", "v2", new.url)]}
        models = [{"name": "m", **fields}, {"name": "safe", **fields, "fallbacks": {"models": ["other"]}}]
        models[1] |= {"pools": [pool("a", "v1", f"{old.url}/"), pool("b", "v2", f"{new.url}/")]}
        other = {"name": "other", "context": 2000, "pools": [pool("a", "", apart.url)]}
        async with gateway_of(store_url, more_models=[*models, other]) as client:
            kept = watched(client)
            await client.chat(model="m")
            record = told(client, kept)
            assert (record.version, record.rollout_epoch) == ("v1", 0)
            for name in ("m", "safe"):
                await put(client, store_url, replace(SPLIT, model=name, share=1.0, epoch=4))
            # Its replica has failed, and no other one of its version is there: the stable version answers.
            assert version(await client.chat(model="m")) == "v1"
            record = told(client, kept)
            assert (record.version, record.rollout_epoch) == ("v1", 0)
            assert (record.failed_version, record.failed_epoch) == ("v2", 4)
            versions = client.gateway.models["m"].versions
            assert versions is not None and versions.missed == 1
            old.behaves = plain(b"{}", "500 Internal Server Error")
            assert (await client.chat(model="m")).status >= 500
            record = told(client, kept)
            assert (record.version, record.rollout_epoch, record.failed_version) == ("v2", 4, "")
            assert (await client.chat(model="safe")).headers["x-penstock-fallback"] == "other"
            record = told(client, kept)
            assert (record.asked_model, record.model, record.version) == ("safe", "other", "")
            assert (record.failed_version, record.failed_epoch, record.rollout_epoch) == ("v2", 4, 0)


async def test_a_request_whose_client_named_a_version_is_no_other_versions(store_url: str) -> None:
    async with upstream() as old, upstream() as new:
        old.behaves = plain(ANSWER)
        new.behaves = plain(b"{}", "500 Internal Server Error")
        model = {"name": "m", "context": 2000, "pools": [pool("a", "v1", old.url), pool("b", "v2", new.url)]}
        tenant = {"name": "acme", "chooses_version": True}
        async with gateway_of(store_url, more_models=[model], tenant=tenant) as client:
            body = {"model": "m", "messages": said("Hi")}
            headers = [(b"authorization", b"Bearer " + client.key.encode()), (HEADER.encode(), b"v2")]
            assert (await client.request("POST", CHAT, body, headers)).status >= 500
            assert old.heard == []


async def test_a_candidate_that_dies_before_its_first_token_costs_no_request(store_url: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        dying = SilentEngine(replace(INFO, version="v2"))
        server, address = await stack.enter_async_context(serving(dying))
        _, other = await stack.enter_async_context(serving(engine_of(version="v1")))
        pools = [pool("p0", "v1", other), pool("p1", "v2", address)]
        model = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 2000, "pools": pools}
        client = await stack.enter_async_context(gateway_of(store_url, more_models=[model]))
        await put(client, store_url, replace(SPLIT, share=1.0))
        asked = asyncio.create_task(client.chat())
        await until(lambda: any(one.request_id != PROBE.request_id for one in dying.submitted.values()))
        await server.close()
        assert version(await asked) == "v1"


async def test_what_was_promoted_outlives_a_start_without_the_store(own_store: EmbeddedStore, tmp_path: Path) -> None:
    async with of_two(own_store.url) as client:
        config = replace(client.gateway.config, state=str(tmp_path))
        async with _running(config, client.key) as first:
            await put(first, own_store.url, replace(SPLIT, stable="v2", candidate="", share=0.0))
            await until((tmp_path / NOTE_FILE).exists)
        await asyncio.to_thread(own_store.stop)
        async with _running(config, client.key) as second:
            versions = second.gateway.models[MODEL].versions
            assert versions is not None
            assert versions.split.stable == "v2"
            said = (await second.request("GET", "/readyz", headers=[])).json["problems"]
            assert "it goes by the one that this machine has noted" in said[0]
        # Of the version that is stable nothing is known: other gateways may know it.
        (tmp_path / NOTE_FILE).unlink()
        async with _running(config, client.key) as third:
            assert not (await third.gateway.readiness()).ready
            assert "this machine has no note of it" in (await third.gateway.readiness()).problems[0]
