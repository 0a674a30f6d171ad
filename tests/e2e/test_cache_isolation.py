"""Timing tells no tenant what another one has asked, on an engine whose time is the model's and not the machine's."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from gateway.config.tenants import Tenant
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_records import KeyRequest
from gateway.tenancy.tenants.tenant_registry import Registry
from replicas.engines.simulated import SimulatedEngine
from routing.contracts.explanation import RouteExplanation
from tests.asgi import COMPLETIONS, Answer, Client, config_of, gateway_of
from tests.harness import MODEL, engine_of
from tests.loops import SOON_SECONDS
from tests.upstreams import Upstream, upstream

#: What is asked about, and what nobody has asked: of as many tokens.
KNOWN = list(range(1000, 1640))
FRESH = list(range(3000, 3640))
#: What the first request asks.
FIRST = list(range(5000, 5010))
#: Two that share, one that does not, and one that has the name of what the two share.
TENANTS = (
    Tenant(name="acme"),
    Tenant(name="other"),
    Tenant(name="friends"),
    Tenant(name="one", cache_group="friends"),
    Tenant(name="two", cache_group="friends"),
    Tenant(name="three", cache_group="acme"),
)
OUTSIDERS = {"acme": ["other", "friends", "one", "three"], "one": ["acme", "other", "friends", "three"]}


class Time:
    """An engine's time: it goes on by what a step takes, and stands still in between."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def engine(self) -> SimulatedEngine:
        """An engine that takes as long for everything as the model does in life."""
        return engine_of(instant=False, clock=self, sleep=self.sleep)


class Site:
    """A gateway and a key for each of the tenants."""

    def __init__(self, client: Client, keys: dict[str, str]) -> None:
        self.client = client
        self._keys = keys

    async def ask(self, tenant: str, prompt: Sequence[int] | str, explain: bytes = b"", **fields: Any) -> Answer:
        headers = [(b"authorization", b"Bearer " + self._keys[tenant].encode())]
        if explain:
            headers.append((b"x-penstock-explain", explain))
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
        answer = await self.client.request("POST", COMPLETIONS, body, headers)
        assert answer.status == 200, answer.body
        return answer

    async def would(self, tenant: str, prompt: Sequence[int]) -> RouteExplanation:
        """Where a request would go, without the request's own id."""
        answer = await self.ask(tenant, prompt, b"dry-run")
        return msgspec.structs.replace(msgspec.json.decode(answer.body, type=RouteExplanation), request_id="")


@contextlib.asynccontextmanager
async def site(store_url: str, *engines: SimulatedEngine, **options: Any) -> AsyncIterator[Site]:
    store = Store(store_url, timeout=10.0)
    registry, keys = Registry(store, config_of(store_url, ["unix:/nowhere"])), {}
    for tenant in TENANTS:
        await registry.create_tenant(tenant, "test")
        _, keys[tenant.name] = await registry.create_key(KeyRequest(name="k", tenant=tenant.name, explain=True), "test")
    await store.aclose()
    async with gateway_of(store_url, *engines, **options) as client:
        await client.proven(len(engines))
        here = Site(client, keys)
        # Behind it no probe of a replica that has just come costs its engine time any more.
        for _ in engines:
            await here.ask("other", FIRST)
        yield here


def cached(answer: Answer) -> int:
    tokens: int = answer.json["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


def engine_ms(answer: Answer) -> tuple[str, str]:
    return answer.headers["x-penstock-queue-ms"], answer.headers["x-penstock-engine-ms"]


@pytest.mark.parametrize("asker", OUTSIDERS)
async def test_a_prompt_that_others_have_asked_takes_what_a_fresh_one_takes(store_url: str, asker: str) -> None:
    time = Time()
    async with site(store_url, time.engine()) as here:

        async def timed(tenant: str, prompt: Sequence[int]) -> tuple[float, tuple[str, str], int]:
            before = time.now
            answer = await here.ask(tenant, prompt)
            return round(time.now - before, 9), engine_ms(answer), cached(answer)

        fresh = await timed(asker, KNOWN)
        again = await timed(asker, KNOWN)
        assert fresh[2] == 0 and again[2] > len(KNOWN) - 64
        assert again[0] < fresh[0] and float(again[1][1]) < 0.8 * float(fresh[1][1])
        for outsider in OUTSIDERS[asker]:
            # To the microsecond what it takes when nobody has asked it, and only then from its own.
            assert await timed(outsider, KNOWN) == fresh
            assert await timed(outsider, FRESH) == fresh
            assert await timed(outsider, KNOWN) == again


async def test_the_first_token_of_a_stream_comes_when_a_fresh_ones_does(store_url: str) -> None:
    time = Time()
    async with site(store_url, time.engine()) as here:

        async def first_token(tenant: str, prompt: Sequence[int]) -> float:
            before = time.now
            answer = await here.ask(tenant, prompt, stream=True, stream_options={"include_usage": True})
            assert len([event for event in answer.events if event != "[DONE]" and event["choices"]]) >= 1
            return round(time.now - before, 9)

        fresh, again = [await first_token("acme", KNOWN) for _ in range(2)]
        assert again < fresh
        assert await first_token("other", KNOWN) == await first_token("other", FRESH) == fresh


async def test_tenants_of_a_group_share_on_purpose(store_url: str) -> None:
    async with site(store_url, Time().engine()) as here:
        fresh, again = [await here.ask("one", KNOWN) for _ in range(2)]
        shared = await here.ask("two", KNOWN)
        assert (cached(shared), engine_ms(shared)) == (cached(again), engine_ms(again))
        assert cached(fresh) == 0 < cached(shared)


@pytest.mark.parametrize("policy", ["auto", "prefix"])
async def test_nobody_is_routed_by_anothers_prefixes_nor_told_of_them(store_url: str, policy: str) -> None:
    engines = [Time().engine() for _ in range(3)]
    async with site(store_url, *engines, routing={"policy": policy}) as here:
        for _ in range(3):
            await here.ask("one", KNOWN)
        await until_known(here, "one")
        held = await here.would("one", KNOWN)
        assert held.cached_tokens > 0
        assert alike(await here.would("two", KNOWN), held)
        for outsider in OUTSIDERS["one"]:
            told, fresh = await here.would(outsider, KNOWN), await here.would(outsider, FRESH)
            assert told.cached_tokens == 0
            assert not any(candidate.cached_tokens for candidate in told.candidates)
            assert alike(told, fresh)
            assert not alike(told, held)
        route = json.loads((await here.ask("other", KNOWN, b"1")).headers["x-penstock-route"])
        assert route["cached_tokens"] == 0
        assert not any("cached_tokens" in candidate for candidate in route["candidates"])


async def test_upstreams_get_a_salt_of_ours_and_none_of_a_client(store_url: str) -> None:
    async with upstream() as salted, upstream() as plain:
        models = [relayed("salted", salted, salt_as="cache_salt"), relayed("plain", plain)]
        async with site(store_url, Time().engine(), more_models=models) as here:
            salts: dict[str, set[str]] = {}
            for tenant in ("acme", "other", "friends", "one", "two", "three"):
                for _ in range(2):
                    await here.ask(tenant, "Hello", model="salted")
                    salts.setdefault(tenant, set()).add(json.loads(salted.heard[-1].body)["cache_salt"])
                await here.ask(tenant, "Hello", model="plain")
                assert "cache_salt" not in json.loads(plain.heard[-1].body)
            assert all(len(each) == 1 for each in salts.values())
            assert salts["one"] == salts["two"]
            assert len(set.union(*salts.values())) == 5
            assert not any(name in salt for salt in set.union(*salts.values()) for name in salts)
            # A client's own salt is joined with the tenant's, and goes to no upstream as it is.
            for written in (b'"cache_salt"', b'"cache\\u005fsalt"'):
                bodies = {}
                for model, heard in (("salted", salted.heard), ("plain", plain.heard)):
                    body = b'{"model": "%b", "prompt": "Hello", %b: "x"}' % (model.encode(), written)
                    assert (await here.client.request("POST", COMPLETIONS, body)).status == 200
                    bodies[model] = json.loads(heard[-1].body)
                assert "cache_salt" not in bodies["plain"]
                assert bodies["salted"]["cache_salt"] not in {"x", *set.union(*salts.values())}


def relayed(name: str, found: Upstream, **settings: Any) -> dict[str, Any]:
    pool = {"name": "up", "engine": "openai", "replicas": [found.url], "upstream": settings}
    return {"name": name, "context": 4096, "pools": [pool]}


def alike(one: RouteExplanation, other: RouteExplanation) -> bool:
    """Whether two decisions saw the same; of equal candidates either may be taken, and costs change with the time."""

    def values(explanation: RouteExplanation) -> Any:
        return pytest.approx({each.replica: each.value for each in explanation.candidates}, rel=0.05)

    def held(explanation: RouteExplanation) -> set[tuple[str, int]]:
        return {(each.replica, each.cached_tokens) for each in explanation.candidates}

    return bool(values(one) == values(other).expected) and held(one) == held(other)


async def until_known(here: Site, tenant: str) -> None:
    """Until the router has heard of what replicas hold of the tenant's prompt."""
    async with asyncio.timeout(SOON_SECONDS):
        while not (await here.would(tenant, KNOWN)).cached_tokens:  # noqa: ASYNC110 (the router tells nobody)
            await asyncio.sleep(0.005)
