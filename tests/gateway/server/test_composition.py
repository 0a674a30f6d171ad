"""Another configuration in one worker: what stays as it is, what is new, and what requests under way keep."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import gateway.server.composition
from gateway.config.models.price import Price
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.config.tenants import Tenant
from gateway.reload.participant import CannotPrepare
from gateway.text.tokens.tokenizer import TokenizerError
from tests.asgi import Client, gateway_of
from tests.gateway.api.accounts import used
from tests.harness import MODEL, engine_of, gated_engine
from tests.loops import until

PRICE = {"input": 1000.0, "cached_input": 1000.0, "output": 2000.0}


def with_model(config: Config, **fields: Any) -> Config:
    """The configuration with other fields of its first model."""
    model = msgspec.convert({**msgspec.to_builtins(config.models[0]), **fields}, Model)
    return msgspec.structs.replace(config, models=(model, *config.models[1:]))


def with_addresses(config: Config, addresses: Sequence[str]) -> Config:
    pool = msgspec.structs.replace(config.models[0].pools[0], replicas=tuple(addresses))
    return with_model(config, pools=[msgspec.to_builtins(pool)])


def another(config: Config, name: str, **fields: Any) -> Config:
    """The configuration with a second model at the same replicas."""
    model = msgspec.convert({**msgspec.to_builtins(config.models[0]), "name": name, **fields}, Model)
    return msgspec.structs.replace(config, models=(*config.models, model))


async def runs(client: Client) -> None:
    """Wait until a request is at a replica."""
    await until(lambda: any(status.in_flight for status in client.gateway.models[MODEL].fleet.statuses()))


async def take(client: Client, config: Config) -> None:
    await client.gateway.prepare(config)
    client.gateway.take()


async def test_a_price_changes_nothing_but_the_price(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant={"name": "acme"}, price=PRICE) as client:
        before = client.gateway.models[MODEL]
        policies = client.gateway.services.policies
        connections = dict(before.fleet._connections)
        await take(client, with_model(client.gateway.config, price={**PRICE, "output": 4000.0}))
        after = client.gateway.models[MODEL]
        assert after.price == msgspec.convert({**PRICE, "output": 4000.0}, Price)
        for part in ("fleet", "admission_queue", "dispatch_context", "policy", "lengths", "tokenizer", "first_tokens"):
            assert getattr(after, part) is getattr(before, part), part
        assert dict(after.fleet._connections) == connections
        assert client.gateway.services.policies is policies
        assert (await client.chat()).status == 200


async def test_a_request_under_way_is_billed_by_the_price_that_it_began_with(store_url: str) -> None:
    engine, gate = gated_engine()
    async with gateway_of(store_url, engine, tenant={"name": "acme"}, price=PRICE) as client:
        asked = asyncio.ensure_future(client.chat(max_tokens=4, ignore_eos=True))
        await runs(client)
        await take(client, with_model(client.gateway.config, price={**PRICE, "output": 100_000.0}))
        gate.open()
        answer = await asked
        assert answer.status == 200
        usage = answer.json["usage"]
        first = (usage["prompt_tokens"] * 1000 + usage["completion_tokens"] * 2000) / 1e6
        assert (await used(client)).cost_usd == pytest.approx(first)
        await client.chat(max_tokens=4, ignore_eos=True)
        second = (usage["prompt_tokens"] * 1000 + usage["completion_tokens"] * 100_000) / 1e6
        assert (await used(client)).cost_usd == pytest.approx(first + second)


async def test_waiting_requests_are_not_forgotten(store_url: str) -> None:
    """A change of a price while requests wait in the queue: they are admitted as if nothing had been."""
    engine, gate = gated_engine(max_batch_size=2)
    async with gateway_of(store_url, engine, price=PRICE) as client:
        calls = [asyncio.ensure_future(client.chat(max_tokens=4, ignore_eos=True)) for _ in range(12)]
        queue = client.gateway.models[MODEL].admission_queue
        await until(lambda: queue.waiting > 0)
        waiting = queue.waiting
        await take(client, with_model(client.gateway.config, price=None))
        assert client.gateway.models[MODEL].admission_queue.waiting == waiting
        gate.open()
        assert [answer.status for answer in await asyncio.gather(*calls)] == [200] * len(calls)


async def test_a_policy_of_routing_makes_a_fleet_of_its_own(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.gateway.RETIRE_SECONDS", 0.02)
    engine, gate = gated_engine()
    async with gateway_of(store_url, engine) as client:
        before = client.gateway.models[MODEL]
        asked = asyncio.ensure_future(client.chat(max_tokens=4, ignore_eos=True))
        await runs(client)
        await take(client, with_model(client.gateway.config, routing={"policy": "least_load"}))
        after = client.gateway.models[MODEL]
        assert after.policy_name == "least_load"
        assert after.fleet is not before.fleet
        assert after.fleet.ready
        assert after.lengths is before.lengths
        assert before.fleet.ready, "a request is under way there"
        gate.open()
        assert (await asked).status == 200
        await until(lambda: not client.gateway._retiring)
        assert before.fleet._ticker is None
        assert (await client.chat()).status == 200


async def test_addresses_at_the_end_of_a_list_come_and_go_in_the_same_fleet(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), engine_of()) as client:
        whole = client.gateway.config
        before = client.gateway.models[MODEL]
        addresses = whole.models[0].pools[0].addresses
        await take(client, with_addresses(whole, addresses[:1]))
        fleet = client.gateway.models[MODEL].fleet
        assert fleet is before.fleet
        await until(lambda: len(fleet.candidates()) == 1)
        await take(client, with_addresses(client.gateway.config, addresses))
        await until(lambda: len(fleet.candidates()) == 2)
        assert client.gateway.models[MODEL].fleet is fleet
        # The first one of the list gives its place to another: a fleet of its own.
        await take(client, with_addresses(client.gateway.config, addresses[1:]))
        assert client.gateway.models[MODEL].fleet is not fleet


async def test_models_come_and_go(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.gateway.RETIRE_SECONDS", 0.02)
    monkeypatch.setattr(gateway.server.composition, "REACH_SECONDS", 0.1)
    async with gateway_of(store_url, engine_of()) as client:
        one = client.gateway.config
        first = client.gateway.models[MODEL]
        await take(client, another(one, "second", aliases=["other"]))
        assert client.gateway.models[MODEL] is first
        assert (await client.chat(model="unknown")).status == 404
        assert set(client.gateway.models) == {MODEL, "second"}
        assert (await client.request("GET", "/v1/models")).json["data"][2]["id"] == "other"
        second = client.gateway.models["second"]
        await take(client, one)
        await until(lambda: not client.gateway._retiring)
        assert second.fleet._ticker is None
        assert first.fleet._ticker is not None
        assert (await client.chat(model="second")).error["code"] == "model_not_found"
        assert (await client.chat()).status == 200


async def test_what_cannot_be_reached_is_refused_and_nothing_of_it_is_left(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.server.composition, "REACH_SECONDS", 0.2)
    async with gateway_of(store_url, engine_of()) as client:
        before = client.gateway.models[MODEL]
        with pytest.raises(CannotPrepare, match=rf"models\[{MODEL}\]: no replica takes requests with it: pool/0: "):
            await client.gateway.prepare(with_addresses(client.gateway.config, ["unix:/nowhere.sock"]))
        assert client.gateway._prepared is None
        assert client.gateway.models[MODEL] is before
        assert (await client.chat()).status == 200


async def test_bad_filters_and_tokenizers_are_refused_by_their_field(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        config = client.gateway.config
        safety = {"filters": [{"name": "words", "terms": {"file": "/nowhere.txt"}}], "input": ["words"]}
        bad = msgspec.convert({**msgspec.to_builtins(config), "safety": safety}, Config)
        with pytest.raises(CannotPrepare, match=r"safety.filters\[0\].terms.file: "):
            await client.gateway.prepare(bad)
        assert (await client.chat()).status == 200


async def test_a_tokenizer_that_cannot_be_loaded_is_named(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gateway_of(store_url, engine_of()) as client:

        def load(source: str | None, shared: object) -> None:
            raise TokenizerError(f"{source}: no tokenizer.json and no tekken file in this folder")

        monkeypatch.setattr("gateway.server.serve_model.load_tokenizer", load)
        with pytest.raises(CannotPrepare, match=r"models\[second\].tokenizer: ./folder: no tokenizer.json"):
            await client.gateway.prepare(another(client.gateway.config, "second", tokenizer="./folder"))
        assert (await client.chat()).status == 200


async def test_filters_hold_for_the_requests_after_the_change(store_url: str) -> None:
    engine, gate = gated_engine()
    async with gateway_of(store_url, engine) as client:
        config = client.gateway.config
        asked = asyncio.ensure_future(client.chat(max_tokens=4, ignore_eos=True))
        await runs(client)
        safety = {"filters": [{"name": "words", "terms": {"terms": ["hello"]}}], "input": ["words"]}
        await take(client, msgspec.convert({**msgspec.to_builtins(config), "safety": safety}, Config))
        refused = await client.chat(messages=[{"role": "user", "content": "Hello"}])
        assert refused.error["code"] == "content_filter"
        gate.open()
        assert (await asked).status == 200


async def test_tenants_of_the_file_change_at_once(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant={"name": "acme"}) as client:
        assert (await client.chat()).status == 200
        limited = msgspec.convert({"name": "acme", "limits": {"rpm": 1}}, Tenant)
        await take(client, msgspec.structs.replace(client.gateway.config, tenants=(limited,)))
        statuses = [(await client.chat()).status for _ in range(3)]
        assert statuses[-1] == 429
        await take(client, msgspec.structs.replace(client.gateway.config, tenants=()))
        assert (await client.chat()).error["code"] == "tenant_gone"


async def test_an_abandoned_configuration_leaves_the_old_one_as_it_was(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        before = client.gateway.models[MODEL]
        await client.gateway.prepare(with_model(client.gateway.config, routing={"policy": "round_robin"}))
        prepared = client.gateway._prepared
        assert prepared is not None
        await client.gateway.abandon()
        assert prepared.models[MODEL].fleet._ticker is None
        assert client.gateway.models[MODEL] is before
        assert before.fleet._ticker is not None
        assert (await client.chat()).status == 200


async def test_a_fleet_of_three_configurations_lives_as_long_as_any_of_their_requests(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and second have a model that the third has not: what retires first leaves it to the other."""
    monkeypatch.setattr("gateway.server.gateway.RETIRE_SECONDS", 0.02)
    monkeypatch.setattr(gateway.server.composition, "REACH_SECONDS", 0.1)
    engine, gate = gated_engine()
    async with gateway_of(store_url, engine) as client:
        first = client.gateway.config
        fleet = client.gateway.models[MODEL].fleet
        await take(client, another(first, "second"))
        asked = asyncio.ensure_future(client.chat(max_tokens=4, ignore_eos=True))
        await runs(client)
        second = client.gateway.config
        await take(client, msgspec.structs.replace(second, models=second.models[1:]))
        assert (await client.chat()).error["code"] == "model_not_found"
        gate.open()
        assert (await asked).status == 200
        await until(lambda: not client.gateway._retiring)
        assert fleet._ticker is None


async def test_many_changes_leave_nothing_behind(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.gateway.RETIRE_SECONDS", 0.01)
    async with gateway_of(store_url, engine_of(), price=PRICE) as client:
        await client.proven(1)
        before = client.gateway.models[MODEL]
        await take(client, with_model(client.gateway.config, price={**PRICE, "output": 1.0}))
        await until(lambda: not client.gateway._retiring)
        tasks = len(asyncio.all_tasks())
        for number in range(20):
            await take(client, with_model(client.gateway.config, price={**PRICE, "output": float(number + 2)}))
            assert (await client.chat(max_tokens=2)).status == 200
        await until(lambda: not client.gateway._retiring)
        assert client.gateway._earlier == []
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        after = client.gateway.models[MODEL]
        assert after.fleet is before.fleet
        (known,) = client.gateway.authenticator._known.values()
        assert len(known.caller.subscriptions) == 1, "those of earlier prices are gone"
