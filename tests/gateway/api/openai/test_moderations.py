"""`POST /v1/moderations` through the application, with filters that the test writes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
import openai
import pytest
from openai.types import ModerationCreateResponse

from gateway.api.openai.moderations import MAX_CHARACTERS, MAX_INPUTS, moderate
from gateway.server.app import Endpoint, State
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ModelNotFound, Overloaded
from safety.action import Action
from safety.screen import Finding
from tests.asgi import Answer, Client, gateway_of
from tests.harness import engine_of
from tests.loops import until

PATH = "/v1/moderations"
#: Words, and what they are.
LABELS = {"fight": ("violence", 0.9), "hurt": ("self_harm_intent", 0.5), "mail": ("email", 1.0), "@": ("email", 0.75)}


class Filters:
    """Finds words; `gate` holds every question back until it is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, list[str]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.cancelled = 0

    async def scan_texts(self, caller: Caller, name: str | None, texts: Sequence[str]) -> list[list[Finding]]:
        self.asked.append((caller.tenant.name, name, list(texts)))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        return [self._findings(text) for text in texts]

    def _findings(self, text: str) -> list[Finding]:
        return [
            Finding("words", Action.FLAG, label, text.index(word), text.index(word) + len(word), score)
            for word, (label, score) in LABELS.items()
            if word in text
        ]


class Moderation:
    """The endpoint of a running worker."""

    def __init__(self, client: Client, filters: Filters) -> None:
        state = State()
        state.services = client.gateway.services
        vars(client.gateway.services.policies)["scan_texts"] = filters.scan_texts
        self.filters = filters
        self.app: Any = Endpoint(state, {"POST": moderate})
        self.client = Client(self.app, client.gateway, client.key)

    async def ask(self, **fields: Any) -> Answer:
        return await self.client.request("POST", PATH, fields)

    async def result(self, **fields: Any) -> dict[str, Any]:
        answer = await self.ask(**fields)
        assert answer.status == 200
        (result,) = answer.json["results"]
        return dict(result)


@contextlib.asynccontextmanager
async def moderation(store_url: str, **options: Any) -> AsyncIterator[Moderation]:
    async with gateway_of(store_url, engine_of(), **options) as client:
        made = Moderation(client, Filters())
        yield made
        await until(lambda: not made.client.active)


async def test_the_official_client_reads_the_answer(store_url: str) -> None:
    async with moderation(store_url) as made:
        transport = httpx2.ASGITransport(app=made.app)
        async with (
            httpx2.AsyncClient(transport=transport) as http,
            openai.AsyncOpenAI(base_url="http://test/v1", api_key=made.client.key, http_client=http) as client,
        ):
            answer = await client.moderations.create(input=["fight!", "well"], model="omni-moderation-latest")
        assert answer.id.startswith("modr-")
        assert answer.model == "omni-moderation-latest"
        first, second = answer.results
        assert first.flagged
        assert first.categories.violence
        assert not first.categories.self_harm_intent
        assert first.category_scores.violence == 0.9
        assert first.category_applied_input_types.violence == ["text"]
        assert not second.flagged
        assert not any(second.categories.model_dump().values())


async def test_the_answer_is_what_the_clients_types_say(store_url: str) -> None:
    async with moderation(store_url) as made:
        answer = await made.ask(input="fight, hurt, mail@")
        parsed = ModerationCreateResponse.model_validate(answer.json, strict=True)
        assert parsed.model == "omni-moderation-latest"
        (result,) = answer.json["results"]
        categories, scores = result["categories"], result["category_scores"]
        assert list(result) == ["flagged", "categories", "category_scores", "category_applied_input_types"]
        assert {name for name, on in categories.items() if on} == {"violence", "self-harm/intent", "email"}
        assert len(categories) == 14
        assert list(categories) == list(scores) == list(result["category_applied_input_types"])
        assert scores["email"] == 1.0, "the highest of its findings"
        assert scores["hate/threatening"] == 0.0
        # Labels that the API does not know are there all the same.
        assert parsed.results[0].categories.model_dump()["email"] is True
        assert answer.headers["x-request-id"] == "req_" + parsed.id[5:]


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("one", [["one"]]),
        ("", [[""]]),
        (["one"], [["one"]]),
        (["one", "two", "one"], [["one"], ["two"], ["one"]]),
        ([{"type": "text", "text": "one"}], [["one"]]),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], [["one", "two"]]),
    ],
)
async def test_inputs(store_url: str, given: Any, texts: list[list[str]]) -> None:
    async with moderation(store_url) as made:
        answer = await made.ask(input=given)
        assert made.filters.asked == [("default", None, [text for parts in texts for text in parts])]
        assert len(answer.json["results"]) == len(texts)


async def test_the_parts_of_one_input_have_one_result(store_url: str) -> None:
    async with moderation(store_url) as made:
        parts = [{"type": "text", "text": text} for text in ("fight", "@", "mail")]
        found = await made.result(input=parts)
        assert {name for name, on in found["categories"].items() if on} == {"violence", "email"}
        assert found["category_scores"]["email"] == 1.0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (None, None),
        ("omni-moderation-latest", None),
        ("omni-moderation-2024-09-26", None),
        ("text-moderation-latest", None),
        ("text-moderation-stable", None),
        ("text-moderation-007", None),
        ("pii", "pii"),
        ("my-guard", "my-guard"),
    ],
)
async def test_models(store_url: str, model: str | None, name: str | None) -> None:
    async with moderation(store_url) as made:
        answer = await made.ask(input="one", model=model)
        assert [asked for _, asked, _ in made.filters.asked] == [name]
        assert answer.json["model"] == (model or "omni-moderation-latest")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": [[1, 2]]}, "input[0]"),
        ({"input": ["a", {"type": "text", "text": "b"}]}, "input"),
        ({"input": [{"type": "text"}]}, "input[0].text"),
        ({"input": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]}, "input[1].type"),
        ({"input": [{"type": "text", "text": "a", "x": 1}]}, "input[0].x"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"input": ["a" * (MAX_CHARACTERS // 2)] * 3}, "input"),
        ({"input": "a", "model": ""}, "model"),
        ({"input": "a", "stream": True}, "stream"),
        (b'{"input":"\\ud800"}', None),
    ],
)
async def test_bad_bodies(store_url: str, body: Any, param: str | None) -> None:
    async with moderation(store_url) as made:
        answer = await made.client.request("POST", PATH, body)
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["param"] == param
        assert not made.filters.asked


async def test_images_are_refused_by_name(store_url: str) -> None:
    async with moderation(store_url) as made:
        answer = await made.ask(input=[{"type": "image_url", "image_url": {"url": "https://host/a.png"}}])
        assert answer.error["code"] == "unsupported_parameter"
        assert "'image_url'" in answer.error["message"]
        assert "host" not in answer.error["message"]


async def test_who_may_not_ask(store_url: str) -> None:
    async with moderation(store_url, max_body_bytes=1024) as made:
        for headers in ([], [(b"authorization", b"Bearer sk-none")]):
            answer = await made.client.request("POST", PATH, {"input": "a"}, headers)
            assert answer.status == 401
        assert (await made.client.request("GET", PATH)).status == 405
        answer = await made.client.request("POST", PATH, {"input": "a" * 2000})
        assert answer.status == 413
        assert not made.filters.asked


async def test_a_key_for_other_endpoints(store_url: str) -> None:
    async with moderation(store_url) as made:
        store = Store(store_url, timeout=10.0)
        _, secret = await KeyStore(store).create(KeyRequest(name="chat alone", endpoints=("chat",)))
        await store.aclose()
        headers = [(b"authorization", b"Bearer " + secret.encode())]
        answer = await made.client.request("POST", PATH, {"input": "a"}, headers)
        assert answer.status == 403
        assert answer.error["code"] == "endpoint_not_allowed"
        assert PATH in answer.error["message"]


async def test_errors_of_the_filters_are_the_apis(store_url: str) -> None:
    async with moderation(store_url) as made:
        made.filters.failure = ModelNotFound("no such filter", param="model")
        assert (await made.ask(input="a", model="absent")).error["code"] == "model_not_found"
        made.filters.failure = Overloaded("a filter failed")
        assert (await made.ask(input="a")).status == 503
        made.filters.failure = RuntimeError("a text that nobody may see")
        answer = await made.ask(input="a")
        assert answer.status == 500
        assert "nobody may see" not in answer.error["message"]


async def test_it_counts_as_a_request_under_way(store_url: str) -> None:
    async with moderation(store_url, max_in_flight=1) as made:
        made.filters.gate.clear()
        asking = asyncio.ensure_future(made.ask(input="a"))
        await until(lambda: made.filters.asked)
        assert made.client.active == 1
        assert (await made.ask(input="b")).status == 503
        made.filters.gate.set()
        assert (await asking).status == 200
        assert made.client.active == 0


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_client_that_leaves_or_is_out_of_time_ends_the_question(store_url: str, leaves: bool) -> None:
    async with moderation(store_url) as made:
        made.filters.gate.clear()
        headers = [(b"authorization", b"Bearer " + made.client.key.encode())]
        if not leaves:
            headers.append((b"x-request-timeout", b"500ms"))
        call = made.client.call("POST", PATH, headers)
        call.put(b'{"input":"a"}')
        await until(lambda: made.filters.asked)
        if leaves:
            call.disconnect()
        answer = await call.answer()
        assert answer.status == (499 if leaves else 504)
        assert made.filters.cancelled == 1


async def test_without_a_policy_the_shipped_filters_look(store_url: str) -> None:
    async with moderation(store_url) as made:
        del vars(made.client.gateway.services.policies)["scan_texts"]
        found = await made.result(input="Write to john.smith@example.com about it.")
        assert found["flagged"]
        assert found["categories"]["email"] is True
        assert not (await made.result(input="Tell me of rivers."))["flagged"]
        assert (await made.ask(input="a", model="absent")).error["code"] == "model_not_found"
