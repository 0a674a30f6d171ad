"""Replicas of different abilities behind one model: who gets what, and what a client is told when nobody can."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from protos.features import Feature
from replicas.engines.simulated import SimulatedEngine
from routing.contracts.explanation import RouteExplanation
from tests.asgi import CHAT, COMPLETIONS, HELLO, Answer, Client, gateway_of
from tests.harness import MODEL, engine_of

TOKENS = Feature.TOKENS
ROUND_ROBIN = {"policy": "round_robin"}
CUSTOM = {"type": "custom", "custom": {"name": "shell"}}


def engine_with(features: Feature) -> SimulatedEngine:
    """One that says that it has these features."""
    engine = engine_of()
    engine.info = replace(engine.info, features=features)
    return engine


async def explained(client: Client, path: str = CHAT, **fields: Any) -> RouteExplanation:
    headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-penstock-explain", b"dry-run")]
    body = {"model": MODEL, "max_tokens": 5, **({"messages": HELLO} if path == CHAT else {"prompt": "x"}), **fields}
    answer = await client.request("POST", path, body, headers)
    assert answer.status == 200, answer.body
    return msgspec.json.decode(answer.body, type=RouteExplanation)


async def test_a_request_goes_only_where_all_that_it_needs_is(store_url: str) -> None:
    engines = engine_with(TOKENS & ~Feature.LOGPROBS), engine_with(TOKENS), engine_with(TOKENS & ~Feature.SEED)
    async with gateway_of(store_url, *engines, explain=True, routing=ROUND_ROBIN) as client:
        await client.proven(3)
        for fields, able in (
            ({}, {0, 1, 2}),
            ({"logprobs": True}, {1, 2}),
            ({"seed": 5}, {0, 1}),
            ({"logprobs": True, "seed": 5}, {1}),
        ):
            told = [await explained(client, **fields) for _ in range(4)]
            assert {one.replica for one in told} <= {f"pool/{number}" for number in able}
            excluded = {seen.replica: seen.excluded for seen in told[0].candidates if seen.excluded}
            assert set(excluded) == {f"pool/{number}" for number in {0, 1, 2} - able}
        assert excluded == {"pool/0": "cannot do logprobs", "pool/2": "cannot do seed"}
        for _ in range(6):
            answer = await client.chat(logprobs=True)
            assert answer.status == 200
            assert answer.json["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize(
    ("path", "feature", "fields", "param"),
    [
        (CHAT, Feature.LOGPROBS, {"logprobs": True}, "logprobs"),
        (COMPLETIONS, Feature.LOGPROBS, {"logprobs": 1}, "logprobs"),
        (CHAT, Feature.SEVERAL, {"n": 2}, "n"),
        (CHAT, Feature.LOGIT_BIAS, {"logit_bias": {"5": 1}}, "logit_bias"),
        (CHAT, Feature.TOP_K, {"top_k": 5}, "top_k"),
        (CHAT, Feature.MIN_P, {"min_p": 0.1}, "min_p"),
        (CHAT, Feature.REPETITION_PENALTY, {"repetition_penalty": 1.2}, "repetition_penalty"),
        (CHAT, Feature.MIN_TOKENS, {"min_tokens": 2}, "min_tokens"),
        (CHAT, Feature.IGNORE_EOS, {"ignore_eos": True}, "ignore_eos"),
        (CHAT, Feature.STOP_TOKEN_IDS, {"stop_token_ids": [5]}, "stop_token_ids"),
        (CHAT, Feature.SEED, {"seed": 1}, "seed"),
        (CHAT, Feature.PENALTIES, {"frequency_penalty": 1}, "frequency_penalty"),
        (COMPLETIONS, Feature.TOKEN_IDS, {"prompt": [5, 6]}, "prompt"),
        (CHAT, Feature.GUIDED, {"response_format": {"type": "json_object"}}, "response_format"),
        (COMPLETIONS, Feature.GUIDED, {"guided_regex": "a+"}, "guided_regex"),
    ],
)
async def test_what_no_replica_can_is_refused_by_name(
    store_url: str, path: str, feature: Feature, fields: dict[str, Any], param: str
) -> None:
    async with gateway_of(store_url, engine_with(TOKENS & ~feature)) as client:
        await client.proven(1)
        refused = await (client.chat if path == CHAT else client.complete)(**fields)
        assert (refused.status, refused.error["code"]) == (400, "unsupported_parameter")
        assert refused.error["param"] == param
        assert f"'{param}' cannot be honoured by this model's engines" in refused.error["message"]
        assert (await client.chat()).status == 200


async def test_what_only_no_single_replica_can_is_refused_as_a_combination(store_url: str) -> None:
    engines = engine_with(TOKENS & ~Feature.LOGPROBS), engine_with(TOKENS & ~Feature.SEED)
    async with gateway_of(store_url, *engines) as client:
        await client.proven(2)
        refused = await client.chat(logprobs=True, seed=1, top_k=4)
        assert (refused.status, refused.error["param"]) == (400, "logprobs")
        assert refused.error["message"] == (
            "'logprobs' and 'seed' cannot be honoured together by this model's engines: "
            "none of them has logprobs and seed."
        )


async def test_what_a_replica_could_do_that_is_not_ready_is_503(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.server.gateway.START_SECONDS", 0.2)
    monkeypatch.setattr("gateway.server.gateway.STRAGGLER_SECONDS", 0.05)

    away = ["unix:///tmp/penstock-nobody.sock"]
    poor = engine_with(TOKENS & ~Feature.LOGPROBS)
    async with gateway_of(store_url, poor, addresses=away) as client:
        await client.proven(1)
        assert (await client.chat()).status == 200
        answer = await client.chat(logprobs=True)
        assert (answer.status, answer.error["code"]) == (503, "replica_unavailable")
        # No simulated replica could ever do this one.
        assert (await client.chat(web_search_options={})).status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [CUSTOM]}, "tools[0].type"),
        ({"documents": [{"text": "x"}]}, "documents"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs.enable_thinking"),
        ({"response_format": {"type": "structural_tag"}}, "response_format"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"messages": [{"role": "function", "content": "5", "name": "f"}]}, "messages[0].role"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}],
                    }
                ]
            },
            "messages[0].content[0].type",
        ),
    ],
)
async def test_what_only_an_upstream_of_the_api_can_is_refused_without_one(
    store_url: str, fields: dict[str, Any], param: str
) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        await client.proven(1)
        refused = await client.chat(**fields)
        assert (refused.status, refused.error["param"]) == (400, param)
        assert refused.error["code"] == "unsupported_parameter"
        assert "supported" in refused.error["message"]
        # Bad input is bad input, whatever else is in the body.
        assert (await client.chat(**fields, n=0)).error["param"] == "n"


async def test_it_goes_to_the_replica_that_speaks_the_api(store_url: str) -> None:
    whole = engine_with(TOKENS | Feature.WHOLE_API | Feature.GUIDED)
    async with gateway_of(store_url, engine_of(), whole, explain=True, routing=ROUND_ROBIN) as client:
        await client.proven(2)
        image = [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "https://example.com/" + "x" * 400}}],
            }
        ]
        for fields in (
            {"tools": [CUSTOM]},
            {"messages": image},
            {"response_format": {"type": "json_object"}},
            {"response_format": {"type": "json_object"}, "tools": [CUSTOM]},
            {"documents": [{"text": "x"}], "logprobs": True},
        ):
            for _ in range(2):
                told = await explained(client, **fields)
                assert told.replica == "pool/1"
        assert (await explained(client, messages=image)).prompt_tokens > 100
        several = await explained(client, COMPLETIONS, prompt=["a", "b"], echo=True, logprobs=1, stream=True)
        assert several.replica == "pool/1"


async def test_one_error_of_many_requests_holds_no_frames(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        await client.proven(1)
        refusals: list[Answer] = [await client.chat(web_search_options={}) for _ in range(3)]
        assert {one.error["message"] for one in refusals} == {
            "Unsupported parameter: 'web_search_options' is not supported here."
        }
