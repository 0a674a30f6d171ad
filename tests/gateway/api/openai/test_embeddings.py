"""`/v1/embeddings` through the application: batches, forms of vectors, and what is refused."""

import asyncio
import base64
import struct
from typing import Any

import orjson
import pytest

from tests.asgi import Answer, Client, gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.embedding_upstream import Embedder, upstream
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.harness import MODEL, engine_of
from tests.loops import until
from tests.upstreams import Caller, Heard, plain

PATH = "/v1/embeddings"
TERMS = {"name": "list", "terms": {"terms": ["frobnicate"]}}


async def embed(client: Client, given: Any, model: str = NAME, **fields: Any) -> Answer:
    return await client.request("POST", PATH, {"model": model, "input": given} | fields)


def first_numbers(answer: Answer) -> list[float]:
    assert answer.status == 200, answer.body
    data = answer.json["data"]
    assert [one["index"] for one in data] == list(range(len(data)))
    assert all(one["object"] == "embedding" for one in data)
    vectors = [one["embedding"] for one in data]
    return [(struct.unpack("<3f", base64.b64decode(v)) if isinstance(v, str) else v)[0] for v in vectors]


@pytest.mark.parametrize("given", ["hello", ["hello"], [1, 2, 3, 4, 5], [[1, 2, 3, 4, 5]]])
@pytest.mark.parametrize("wanted", [None, "float", "base64"])
@pytest.mark.parametrize("written", [None, "float", "base64"])
async def test_every_form_of_input_and_vector(
    store_url: str, given: Any, wanted: str | None, written: str | None
) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)]) as client:
        fake = Embedder(one, written=written)
        answer = await embed(client, given, encoding_format=wanted, dimensions=3, user="me")
        assert first_numbers(answer) == [5.0]
        kind = str if wanted == "base64" else list
        assert isinstance(answer.json["data"][0]["embedding"], kind)
        assert answer.json["model"] == NAME
        assert answer.json["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
        assert answer.headers["content-type"] == "application/json"
        (asked,) = fake.asked
        assert asked["input"] == given
        assert asked["dimensions"] == 3
        assert asked["user"] == "me"
        assert asked.get("encoding_format") == wanted


async def test_many_inputs_go_in_batches_and_come_back_in_order(store_url: str) -> None:
    tenant = {"name": "payer", "limits": {"tpm": 100_000, "rpm": 2}}
    async with (
        upstream() as one,
        upstream() as other,
        gateway_of(
            store_url,
            more_models=[hosted(one, other, embeddings={"batch": 7, "encoding": "base64"}, price={"input": 1000.0})],
            tenant=tenant,
        ) as client,
    ):
        fakes = [Embedder(one), Embedder(other)]
        fakes[0].backwards = True
        given = ["x" * (1 + at % 90) for at in range(100)]
        answer = await embed(client, given)
        assert first_numbers(answer) == [float(len(text)) for text in given]
        assert answer.json["usage"]["total_tokens"] == sum(map(len, given))
        asked = [body for fake in fakes for body in fake.asked]
        assert len(asked) == 15
        assert all(len(body["input"]) <= 7 and body["encoding_format"] == "base64" for body in asked)
        assert all(fake.asked for fake in fakes)
        # One request to its limits, however many it becomes.
        assert first_numbers(await embed(client, ["a"] * 20)) == [1.0] * 20
        assert (await embed(client, "a")).status == 429
        row = await used(client, "payer")
        assert (row.requests, row.input_tokens, row.output_tokens) == (2, sum(map(len, given)) + 20, 0)
        assert row.cost_usd == pytest.approx(row.input_tokens / 1000)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("", "input"),
        ([], "input"),
        ([""], "input[0]"),
        (["a", ""], "input[1]"),
        ([[]], "input[0]"),
        (["a", 1], "input[1]"),
        ([1, [2]], "input[0]"),
        (["a", None], "input[1]"),
        ([-1], "input[0]"),
        ([1.5], "input[0]"),
        (5, "input"),
        ({"text": "a"}, "input"),
        (["a"] * 2049, "input"),
    ],
)
async def test_inputs_that_are_none(store_url: str, given: Any, param: str) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)]) as client:
        answer = await embed(client, given)
        assert answer.status == 400
        assert answer.error["param"] == param
        assert not one.heard


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "many"}, "dimensions"),
        ({"stream": True}, "stream"),
        ({"model": "nothing"}, "model"),
        ({"model": MODEL}, "model"),
    ],
)
async def test_refusals_name_the_parameter(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with upstream() as one, gateway_of(store_url, engine_of(), more_models=[hosted(one)]) as client:
        answer = await embed(client, "hello", **fields)
        assert answer.status in (400, 404)
        assert answer.error["param"] == param
        if fields.get("model") == MODEL:
            assert answer.error["code"] == "unsupported_parameter"
            assert "embeddings" in answer.error["message"]


async def test_an_upstream_that_is_said_to_have_no_embeddings_is_not_asked(store_url: str) -> None:
    async with upstream() as one:
        model = hosted(one)
        model["pools"][0]["upstream"] = {"endpoints": ["rerank"]}
        async with gateway_of(store_url, more_models=[model]) as client:
            answer = await embed(client, "hello")
            assert (answer.status, answer.error["param"]) == (400, "model")
            assert not one.heard


def spoiled(**fields: Any) -> Any:
    return lambda answer: answer | fields


def with_vector(vector: Any) -> Any:
    return lambda answer: answer | {"data": [{"index": 0, "embedding": vector}, *answer["data"][1:]]}


@pytest.mark.parametrize(
    "spoils",
    [
        spoiled(data=[]),
        spoiled(data="none"),
        spoiled(data=[{"index": 0, "embedding": [1.0]}] * 2),
        spoiled(data=[{"index": 0, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}]),
        with_vector([1.0]),
        with_vector([]),
        with_vector([1.0, None, 2.0]),
        with_vector([1.0, 1e39, 2.0]),
        with_vector("AAA"),
        with_vector("not base64!"),
        with_vector(base64.b64encode(b"12345").decode()),
        with_vector(base64.b64encode(struct.pack("<3f", 1, float("nan"), 2)).decode()),
        with_vector(base64.b64encode(struct.pack("<3f", 1, float("-inf"), 2)).decode()),
        with_vector({"values": [1.0]}),
        with_vector(None),
        spoiled(error={"message": "a secret of theirs"}),
        lambda _: plain(b"[1]"),
        lambda _: plain(b'{"data":[{"index":0,"embedding":[1,1e999,2]},{"index":1,"embedding":[1,2,3]}]}'),
        lambda _: plain(b"<html>a secret of theirs</html>", kind="text/html"),
    ],
)
async def test_answers_that_are_none_fail_the_request_and_cost_nothing(store_url: str, spoils: Any) -> None:
    tenant = {"name": "payer", "limits": {"tpm": 100_000}}
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)], tenant=tenant) as client:
        fake = Embedder(one)
        fake.spoils = spoils
        answer = await embed(client, ["a", "b"])
        assert answer.status in (500, 502, 503)
        assert "secret" not in answer.error["message"]
        row = await used(client, "payer")
        assert (row.input_tokens, row.cost_usd) == (0, 0)


async def test_the_error_of_one_batch_is_the_whole_requests_and_ends_the_others(store_url: str) -> None:
    tenant = {"name": "payer", "limits": {"tpm": 100_000, "concurrency": 5}}
    model: dict[str, Any] = {"embeddings": {"batch": 1, "parallel": 4}}
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, **model)], tenant=tenant) as client,
    ):
        gone = 0

        async def behaves(caller: Caller, heard: Heard) -> object:
            nonlocal gone
            if orjson.loads(heard.body)["input"] == ["bad"]:
                await until(lambda: len(one.heard) == 4)
                body = b'{"error":{"message":"too long for theirs","type":"invalid_request_error","code":null}}'
                await caller.say(plain(body, "400 Bad Request"))
                return True
            await caller.gone()
            gone += 1
            return False

        one.behaves = behaves
        answer = await embed(client, ["a", "b", "bad", *["c"] * 50])
        assert answer.status == 400
        await until(lambda: gone == 3)
        # Nothing more was asked for.
        assert len(one.heard) == 4
        row = await used(client, "payer")
        assert row.input_tokens == 0
        Embedder(one)
        assert (await embed(client, "a")).status == 200


async def test_a_client_that_leaves_ends_all_batches(store_url: str) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, embeddings={"batch": 1})]) as client,
    ):
        gone = 0

        async def behaves(caller: Caller, heard: Heard) -> object:
            nonlocal gone
            await caller.gone()
            gone += 1
            return False

        one.behaves = behaves
        call = client.call("POST", PATH)
        call.put(orjson.dumps({"model": NAME, "input": ["a", "b", "c"]}))
        await until(lambda: len(one.heard) == 3)
        call.disconnect()
        await until(lambda: gone == 3)
        assert call.task is not None
        await asyncio.wait([call.task])


async def test_inputs_pass_the_filters(store_url: str) -> None:
    safety = {"input": ["pii", "list"], "output": [], "filters": [TERMS]}
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)], safety=safety) as client:
        fake = Embedder(one)
        answer = await embed(client, ["hello", "please frobnicate it"])
        assert answer.error["code"] == "content_filter"
        assert answer.error["param"] == "input[1]"
        assert not fake.asked
        assert (await embed(client, ["write to anna.bell@mail.example.org", "b"])).status == 200
        assert "anna.bell" not in fake.asked[0]["input"][0]
        assert fake.asked[0]["input"][1] == "b"
        # What nobody here can read does not get past them.
        assert (await embed(client, [1, 2, 3])).error["param"] == "input"


async def test_long_answers_come_whole(store_url: str) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)]) as client:
        Embedder(one, dimensions=20_000)
        answer = await embed(client, ["ab"] * 40)
        assert len(answer.body) > 3_000_000
        assert [vector["embedding"][0] for vector in answer.json["data"]] == [2.0] * 40
        assert answer.json["usage"]["prompt_tokens"] == 80


async def test_a_limit_on_the_length_of_inputs(store_url: str) -> None:
    tenant = {"name": "payer", "limits": {"max_input_tokens": 100}}
    model: dict[str, Any] = {"embeddings": {"batch": 1}}
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, **model)], tenant=tenant) as client,
    ):
        Embedder(one)
        answer = await embed(client, ["x" * 200] * 3)
        assert (answer.error["code"], answer.error["param"]) == ("token_limit_exceeded", "input")
        assert (await embed(client, "x" * 100)).status == 200


async def test_the_record_tells_of_the_whole_request(store_url: str) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, embeddings={"batch": 2})]) as client,
    ):
        Embedder(one)
        told: list[Any] = []
        client.gateway.services.record_publisher.ended = told.append  # type: ignore[method-assign, assignment]
        assert (await embed(client, ["abc"] * 5)).status == 200
        (record,) = told
        assert (record.endpoint, record.model, record.prompt_tokens, record.completion_tokens) == (
            "embeddings",
            NAME,
            15,
            0,
        )
        assert (record.sequences, record.pool, record.status) == (5, "up", 200)
        assert record.identified <= record.reserved <= record.first_token <= record.last_token
