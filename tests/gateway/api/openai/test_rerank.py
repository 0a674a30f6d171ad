"""`/v1/rerank` and `/v1/score` through the application."""

from typing import Any

import orjson
import pytest

from tests.asgi import Answer, Client, gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.harness import MODEL, engine_of
from tests.upstreams import Upstream, plain, upstream

DOCUMENTS = ["about cats", {"text": "about dogs"}, "about cars"]
RANKING = {
    "id": "theirs",
    "model": "theirs",
    "usage": {"total_tokens": 21},
    "results": [
        {"index": 0, "relevance_score": 0.2, "document": {"text": "their copy"}},
        {"index": 1, "relevance_score": 0.9},
        {"index": 2, "relevance_score": -0.5},
    ],
}
SCORES = {
    "id": "theirs",
    "object": "list",
    "model": "theirs",
    "data": [{"index": 1, "object": "score", "score": 0.25}, {"index": 0, "object": "score", "score": 1}],
    "usage": {"prompt_tokens": 9, "total_tokens": 9, "completion_tokens": 0},
}


def ranking(one: Upstream, *, endpoints: tuple[str, ...] = ("rerank", "score"), **fields: Any) -> dict[str, Any]:
    model = hosted(one, **fields)
    model["pools"][0]["upstream"] = {"endpoints": endpoints}
    return model


async def rerank(client: Client, **fields: Any) -> Answer:
    return await client.request("POST", "/v1/rerank", {"model": NAME, "query": "pets", "documents": DOCUMENTS} | fields)


async def score(client: Client, **fields: Any) -> Answer:
    return await client.request("POST", "/v1/score", {"model": NAME, "text_1": "a", "text_2": ["b", "c"]} | fields)


async def test_documents_come_back_from_the_best_to_the_worst(store_url: str) -> None:
    tenant = {"name": "payer", "limits": {"tpm": 100_000}}
    async with upstream() as one, gateway_of(store_url, more_models=[ranking(one)], tenant=tenant) as client:
        one.behaves = plain(orjson.dumps(RANKING))
        answer = await rerank(client)
        assert answer.status == 200
        assert answer.json["model"] == NAME
        assert answer.json["usage"] == {"prompt_tokens": 21, "total_tokens": 21}
        assert answer.json["results"] == [
            {"index": 1, "relevance_score": 0.9, "document": {"text": "about dogs"}},
            {"index": 0, "relevance_score": 0.2, "document": {"text": "about cats"}},
            {"index": 2, "relevance_score": -0.5, "document": {"text": "about cars"}},
        ]
        assert one.heard[0].target == "/v1/rerank"
        assert orjson.loads(one.heard[0].body) == {
            "model": NAME,
            "query": "pets",
            "documents": ["about cats", "about dogs", "about cars"],
        }
        best = await rerank(client, top_n=1, return_documents=False)
        assert best.json["results"] == [{"index": 1, "relevance_score": 0.9}]
        row = await used(client, "payer")
        assert (row.requests, row.input_tokens, row.output_tokens) == (2, 42, 0)


async def test_scores_come_back_in_order(store_url: str) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[ranking(one)]) as client:
        one.behaves = plain(orjson.dumps(SCORES))
        answer = await score(client)
        assert answer.status == 200
        assert [(each["index"], each["score"]) for each in answer.json["data"]] == [(0, 1.0), (1, 0.25)]
        assert answer.json["model"] == NAME
        assert answer.json["usage"]["total_tokens"] == 9
        assert one.heard[0].target == "/v1/score"
        refused = await score(client, text_1=["a", "b", "c"])
        assert (refused.status, refused.error["param"]) == (400, "text_2")


async def test_models_without_the_endpoint_refuse_by_name(store_url: str) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, engine_of(), more_models=[ranking(one, endpoints=("score",))]) as client,
    ):
        for model in (MODEL, NAME):
            answer = await rerank(client, model=model)
            assert (answer.status, answer.error["param"]) == (400, "model")
            assert "rerank" in answer.error["message"]
        assert (await score(client, model=MODEL)).error["param"] == "model"
        assert not one.heard


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"query": ""}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": [""]}, "documents[0]"),
        ({"documents": [{"title": "a"}]}, "documents[0].title"),
        ({"documents": ["a"] * 3000}, "documents"),
        ({"top_n": 0}, "top_n"),
        ({"rank_fields": ["a"]}, "rank_fields"),
    ],
)
async def test_bodies_that_are_none(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[ranking(one)]) as client:
        answer = await rerank(client, **fields)
        assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b'{"results":[]}',
        b'{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1},{"index":1,"relevance_score":1}]}',
        b'{"results":[{"index":0,"relevance_score":1},{"index":3,"relevance_score":1},{"index":1,"relevance_score":1}]}',
        b'{"results":[{"index":0,"relevance_score":"high"}]}',
        b'{"error":{"message":"a secret"}}',
    ],
)
async def test_answers_that_are_none(store_url: str, answer: bytes) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[ranking(one)]) as client:
        one.behaves = plain(answer)
        for refused in (await rerank(client), await score(client)):
            assert refused.status in (500, 502, 503)
            assert "secret" not in refused.error["message"]


async def test_documents_pass_the_filters(store_url: str) -> None:
    safety = {"input": ["pii"], "output": []}
    async with upstream() as one, gateway_of(store_url, more_models=[ranking(one)], safety=safety) as client:
        one.behaves = plain(orjson.dumps(RANKING))
        answer = await rerank(client, documents=["anna.bell@mail.example.org", {"text": "b@mail.example.org"}, "c"])
        assert answer.status == 200
        assert b"mail.example.org" not in one.heard[0].body
        assert b"mail.example.org" not in answer.body
        one.behaves = plain(orjson.dumps(SCORES))
        assert (await score(client, text_2=["anna.bell@mail.example.org", "c"])).status == 200
        assert b"mail.example.org" not in one.heard[1].body
