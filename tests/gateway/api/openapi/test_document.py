"""The document: what is in it, and that every answer to what it allows, and to what it does not, is as it says."""

import asyncio
import operator
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks

from gateway.api.openapi.descriptions import DESCRIPTIONS
from gateway.api.openapi.document import document
from gateway.server.app import ANY, ROUTES
from gateway.store.embedded import EmbeddedStore
from tests.asgi import Answer, Client, gateway_of
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import BOUND_SECONDS

DOCUMENT = document(ROUTES, DESCRIPTIONS)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS: dict[str, Any] = {one.label: one for one in map(operator.methodcaller("ok"), SCHEMA.get_all_operations())}
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
FEW = settings(
    deadline=None,
    max_examples=8,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_every_route_is_described() -> None:
    routes = {(route.method, route.path) for route in ROUTES if route.method != ANY}
    assert routes == set(DESCRIPTIONS)
    assert sum(map(len, DOCUMENT["paths"].values())) == len(routes)
    assert len({one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()}) == len(routes)


def test_a_route_that_is_not_described_is_there_all_the_same() -> None:
    found = document(ROUTES[:1], {})
    (operations,) = found["paths"].values()
    assert operations["post"]["responses"]["200"]


async def test_it_is_served_without_a_key(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        first, second = [await client.request("GET", "/openapi.json", headers=[]) for _ in range(2)]
        assert first.status == 200
        assert first.json == DOCUMENT
        assert first.body == second.body
        assert str(client.key) not in first.body.decode()


class Bench:
    """One application and one loop for all examples."""

    def __init__(self, runner: asyncio.Runner, client: Client) -> None:
        self._runner = runner
        self._client = client

    def ask(self, sent: requests.PreparedRequest) -> Answer:
        async def main() -> Answer:
            url = urlsplit(sent.url or "")
            headers = [(name.lower().encode("latin-1"), bytes(_bytes(value))) for name, value in sent.headers.items()]
            headers.append((b"authorization", b"Bearer " + self._client.key.encode()))
            query = f"?{url.query}" if url.query else ""
            async with asyncio.timeout(BOUND_SECONDS):
                return await self._client.request(
                    sent.method or "", unquote(str(url.path)) + query, _bytes(sent.body or b""), headers
                )

        return self._runner.run(main())

    def check(self, case: schemathesis.Case[Any]) -> Answer:
        """Send it, and compare the answer with the document."""
        sent = requests.Request(**case.as_transport_kwargs(base_url="http://gateway")).prepare()
        answer = self.ask(sent)
        assert answer.status != 500, answer.body
        shown = {name: [value] for name, value in answer.headers.items()}
        response = schemathesis.Response(answer.status, shown, answer.body, sent, elapsed=0.0, verify=False)
        case.validate_response(response, checks=CHECKS)
        return answer


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("latin-1", "replace")


@pytest.fixture(scope="module")
def bench(valkey: EmbeddedStore) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        manager = gateway_of(valkey.url, engine_of(corpus=readable_corpus()))
        client = runner.run(manager.__aenter__())
        yield Bench(runner, client)
        runner.run(manager.__aexit__(None, None, None))


ASKED: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
GIVEN: dict[str, Any] = {"model": MODEL, "prompt": "Hi", "max_tokens": 5}


@pytest.mark.parametrize(
    ("label", "body"),
    [
        ("POST /v1/chat/completions", ASKED),
        ("POST /v1/chat/completions", ASKED | {"stream": True}),
        ("POST /v1/chat/completions", ASKED | {"n": 2, "logprobs": True, "top_logprobs": 2}),
        ("POST /v1/completions", GIVEN),
        ("POST /v1/completions", GIVEN | {"logprobs": 2, "n": 2}),
        ("POST /v1/messages", ASKED),
        ("POST /v1/messages", ASKED | {"stream": True}),
        ("POST /v1/messages/count_tokens", {name: ASKED[name] for name in ("model", "messages")}),
        ("POST /v1/responses", {"model": MODEL, "input": "Hi", "max_output_tokens": 16}),
        ("POST /v1/responses", {"model": MODEL, "input": "Hi", "max_output_tokens": 16, "stream": True}),
        ("POST /v1/responses/input_tokens", {"model": MODEL, "input": "Hi"}),
        ("POST /v1/conversations", {"items": [{"type": "message", "role": "user", "content": "Hi"}]}),
        ("POST /v1/moderations", {"input": ["Hi", "there"]}),
        ("POST /v1/tokenize", {"model": MODEL, "prompt": "Hi", "return_token_strs": True}),
        ("POST /v1/detokenize", {"model": MODEL, "tokens": [5, 6]}),
        ("GET /v1/models", None),
        ("GET /v1/models/{model}", None),
        ("GET /v1/batches", None),
        ("GET /v1/files", None),
        ("GET /healthz", None),
        ("GET /readyz", None),
    ],
)
def test_an_answer_that_succeeds_is_as_it_says(bench: Bench, label: str, body: Any) -> None:
    operation = OPERATIONS[label]
    path = {"model": MODEL} if "{model}" in label else {}
    given = {} if body is None else {"body": body, "media_type": "application/json"}
    answer = bench.check(operation.Case(path_parameters=path, **given))
    assert answer.status == 200, answer.body


def test_what_is_kept_is_shown_as_it_says(bench: Bench) -> None:
    def shown(label: str, body: Any = None, **given: Any) -> Any:
        if body is not None:
            given |= {"body": body, "media_type": "application/json"}
        answer = bench.check(OPERATIONS[label].Case(**given))
        assert answer.status == 200, answer.body
        return answer.json

    said = {"type": "message", "role": "user", "content": "Hi"}
    called = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    told = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
    at = {"conversation_id": shown("POST /v1/conversations", {"items": [said]})["id"]}
    shown("POST /v1/conversations/{conversation_id}/items", {"items": [called, told]}, path_parameters=at)
    items = shown("GET /v1/conversations/{conversation_id}/items", path_parameters=at)
    assert [item["type"] for item in items["data"]] == ["function_call_output", "function_call", "message"]
    for item in items["data"]:
        one = {**at, "item_id": item["id"]}
        assert shown("GET /v1/conversations/{conversation_id}/items/{item_id}", path_parameters=one) == item
    shown("POST /v1/conversations/{conversation_id}", {"metadata": {"a": "b"}}, path_parameters=at)
    asked = {"model": MODEL, "input": [said, called, told], "max_output_tokens": 16}
    at_response = {"response_id": shown("POST /v1/responses", asked)["id"]}
    shown("GET /v1/responses/{response_id}", path_parameters=at_response)
    listed = shown("GET /v1/responses/{response_id}/input_items", path_parameters=at_response)
    assert len(listed["data"]) == 3
    shown("DELETE /v1/responses/{response_id}", path_parameters=at_response)
    shown("DELETE /v1/conversations/{conversation_id}", path_parameters=at)


@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_are_as_it_says(bench: Bench, label: str) -> None:
    operation = OPERATIONS[label]

    @FEW
    @given(
        case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
        known=st.booleans(),
    )
    def check(case: schemathesis.Case[Any], known: bool) -> None:
        if isinstance(case.body, dict) and known and "model" in case.body:
            case.body["model"] = MODEL
        bench.check(case)

    check()
