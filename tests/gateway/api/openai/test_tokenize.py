"""`/v1/tokenize` and `/v1/detokenize` through the application."""

from typing import Any

import orjson
import pytest

from tests.asgi import Answer, Client, gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.harness import MODEL, engine_of, tekken
from tests.upstreams import plain, upstream


async def tokenize(client: Client, **fields: Any) -> Answer:
    return await client.request("POST", "/v1/tokenize", {"model": MODEL} | fields)


async def detokenize(client: Client, tokens: Any, model: str = MODEL) -> Answer:
    return await client.request("POST", "/v1/detokenize", {"model": model, "tokens": tokens})


async def test_texts_and_chats_and_back(store_url: str) -> None:
    tokenizer = tekken().tokenizer
    tenant = {"name": "payer", "limits": {"tpm": 10}}
    async with gateway_of(store_url, engine_of(), tenant=tenant) as client:
        for text in ("Grüße, 世界 🎉", "word " * 10_000, ""):
            wanted = tokenizer.encode(text, special=False)
            answer = await tokenize(client, prompt=text, add_special_tokens=False)
            assert answer.json == {
                "count": len(wanted),
                "max_model_len": 2000,
                "tokens": wanted,
                "token_strs": None,
            }
            assert (await detokenize(client, wanted)).json == {"prompt": text}
        answer = await tokenize(client, prompt="<s>Hello there", return_token_strs=True)
        assert answer.json["tokens"][0] == tokenizer.bos_id
        assert answer.json["token_strs"][0] == "<s>"
        # What a caller writes is never a control token.
        assert "".join(answer.json["token_strs"][1:]) == "<s>Hello there"
        assert answer.json["tokens"].count(tokenizer.bos_id) == 1
        chat = await tokenize(client, messages=[{"role": "user", "content": "Hello!"}], return_token_strs=True)
        assert "".join(chat.json["token_strs"]) == (await detokenize(client, chat.json["tokens"])).json["prompt"]
        assert "[INST]" in chat.json["token_strs"]
        prompt_tokens = (await client.chat(max_tokens=1)).json["usage"]["prompt_tokens"]
        assert chat.json["count"] == prompt_tokens
        # Only that chat has cost any.
        assert (await used(client, "payer")).input_tokens == prompt_tokens


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"messages": [{"role": "nobody", "content": "a"}]}, "messages[0].role"),
        ({"messages": []}, "messages"),
        ({"prompt": "a", "add_generation_prompt": False}, "add_generation_prompt"),
        ({"prompt": "a", "model": "nothing"}, "model"),
        ({"prompt": "a", "what": 1}, "what"),
    ],
)
async def test_bodies_that_are_none(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await tokenize(client, **fields)
        assert answer.status in (400, 404)
        assert answer.error["param"] == param


async def test_ids_outside_the_vocabulary(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        assert (await detokenize(client, [5, 4_000_000_000])).error["param"] == "tokens[1]"
        assert (await detokenize(client, [-1])).error["param"] == "tokens[0]"
        assert (await detokenize(client, "text")).error["param"] == "tokens"


async def test_what_goes_to_an_upstream_passes_the_filters(store_url: str) -> None:
    async with upstream() as one:
        model = hosted(one)
        model["pools"][0]["upstream"] = {"endpoints": ["tokenize"]}
        async with gateway_of(store_url, more_models=[model], safety={"input": ["pii"], "output": []}) as client:
            one.behaves = plain(b'{"count":1,"tokens":[5]}')
            for fields in (
                {"prompt": "anna.bell@mail.example.org"},
                {"messages": [{"role": "user", "content": "anna.bell@mail.example.org"}]},
                {
                    "messages": [{"role": "user", "content": [{"type": "text", "text": "a@mail.example.org"}]}],
                    "tools": [{"type": "function", "function": {"name": "f", "description": "b@mail.example.org"}}],
                },
            ):
                answer = await tokenize(client, model=NAME, **fields)
                assert answer.status == 200
                assert answer.json["max_model_len"] == 4096
                assert b"mail.example.org" not in one.heard[-1].body


async def test_an_upstream_tokenizes_where_it_can(store_url: str) -> None:
    async with upstream() as one, upstream() as other:
        can, cannot = hosted(one), hosted(other, name="other")
        can["pools"][0]["upstream"] = {"endpoints": ["tokenize"]}
        async with gateway_of(store_url, more_models=[can, cannot]) as client:
            one.behaves = plain(b'{"count":3,"max_model_len":77,"tokens":[5,6,7],"token_strs":null}')
            answer = await tokenize(client, model=NAME, prompt="abc")
            assert answer.json == {"count": 3, "max_model_len": 77, "tokens": [5, 6, 7], "token_strs": None}
            assert one.heard[0].target == "/tokenize"
            assert orjson.loads(one.heard[0].body) == {"model": NAME, "prompt": "abc"}
            one.behaves = plain(b'{"prompt":"abc"}')
            assert (await detokenize(client, [5, 6, 7], NAME)).json == {"prompt": "abc"}
            assert one.heard[1].target == "/detokenize"
            one.behaves = plain(b'{"tokens":"none"}')
            assert (await tokenize(client, model=NAME, prompt="abc")).status in (500, 502, 503)
            refused = await tokenize(client, model="other", prompt="abc")
            assert (refused.status, refused.error["param"]) == (400, "model")
            assert (await detokenize(client, [5], "other")).error["param"] == "model"
