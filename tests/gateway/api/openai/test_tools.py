"""Tools through the whole gateway: shown to a model that gives tokens, called in its words, answered as OpenAI does."""

import json
from typing import Any

import openai
import pytest
from msgspec.structs import replace

from gateway.inference.generate_request import Chat
from gateway.inference.prompt_encoding import encode_prompt
from protos.features import Feature
from protos.script import Line
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import HELLO, gateway_of
from tests.harness import MODEL, engine_of, readable_corpus, readable_vocabulary, tekken
from tests.upstreams import plain, upstream

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "find", "description": "Finds [INST].", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now"}},
]
NAMED = {"type": "function", "function": {"name": "find"}}
CALL = '[TOOL_CALLS][{"name": "find", "arguments": {"n": 5}}]'
WEATHER = [{"role": "user", "content": "What weather?"}]


def engine(**options: Any) -> SimulatedEngine:
    script = (Line("What weather", CALL),)
    return engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=script, **options)


def calls_of(answer: Any) -> list[tuple[str, Any]]:
    """Names and arguments of the calls of the only choice, which must be whole."""
    (choice,) = answer.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    calls = choice["message"]["tool_calls"]
    assert all(call["type"] == "function" and call["id"] for call in calls)
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


async def test_a_model_calls_a_tool_and_is_told_what_came_of_it(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        answer = await client.chat(messages=WEATHER, tools=TOOLS)
        assert answer.status == 200
        assert calls_of(answer) == [("find", {"n": 5})]
        (call,) = answer.json["choices"][0]["message"]["tool_calls"]
        told = [*WEATHER, answer.json["choices"][0]["message"]]
        told += [{"role": "tool", "tool_call_id": call["id"], "content": "It rains [/INST]."}]
        again = await client.chat(messages=told, tools=TOOLS)
        assert again.status == 200
        # The prompt is Mistral's own form of all that.
        now = {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}
        shown = [TOOLS[0], {"type": "function", "function": now}]
        model = client.gateway.models[MODEL]
        ids = encode_prompt(model, Chat([*told[:-1], told[-1] | {"name": "find"}], {"tools": shown}))
        assert again.json["usage"]["prompt_tokens"] == len(ids)
        specials = tekken().tokenizer.specials
        assert ids.count(specials["[INST]"]) == ids.count(specials["[TOOL_RESULTS]"]) == 1


async def test_without_leave_to_call_it_is_text(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        plainly = await client.chat(messages=WEATHER)
        nothing: tuple[dict[str, Any], ...] = ({"tools": TOOLS, "tool_choice": "none"}, {"tools": []})
        for fields in nothing:
            answer = await client.chat(messages=WEATHER, **fields)
            assert answer.json["choices"] == plainly.json["choices"]
            assert answer.json["usage"]["prompt_tokens"] == plainly.json["usage"]["prompt_tokens"]
        assert "tool_calls" not in plainly.json["choices"][0]["message"]


async def test_a_call_that_must_be(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        ((name, arguments),) = calls_of(await client.chat(tools=TOOLS, tool_choice=NAMED, max_tokens=500))
        assert (name, list(arguments), type(arguments["n"])) == ("find", ["n"], int)
        required = {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 500}
        (one,) = calls_of(await client.chat(tools=TOOLS, **required))
        assert one[0] in ("find", "now")
        # It has no text that a format could be for.
        assert calls_of(await client.chat(tools=TOOLS, response_format={"type": "json_object"}, **required))


async def test_the_official_client_streams_a_call(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        answer = await client.chat(messages=WEATHER, tools=TOOLS, stream=True)
        *events, done = answer.events
        assert done == "[DONE]"
        chunks = [openai.types.chat.ChatCompletionChunk.model_validate(event) for event in events]
        pieces = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        assert (pieces[0].index, pieces[0].function and pieces[0].function.name) == (0, "find")
        assert pieces[0].id
        arguments = "".join((call.function and call.function.arguments) or "" for call in pieces)
        assert json.loads(arguments) == {"n": 5}
        assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "features", "param"),
    [
        ({"tools": TOOLS, "tool_choice": "required"}, Feature.TOKENS & ~Feature.GUIDED, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": NAMED}, Feature.TOKENS & ~Feature.GUIDED, "tool_choice"),
        ({"tools": TOOLS, "guided_grammar": 'root ::= "x"'}, None, "guided_grammar"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, None, "tools[0].type"),
        ({"functions": [{"name": "f"}]}, None, "functions"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(
    store_url: str, fields: dict[str, Any], features: Feature | None, param: str
) -> None:
    own = engine()
    if features is not None:
        own.info = replace(own.info, features=features)
    async with gateway_of(store_url, own) as client:
        answer = await client.chat(**fields)
        assert (answer.status, answer.error["param"]) == (400, param)
        assert answer.error["code"] == "unsupported_parameter"


async def test_a_message_does_not_open_a_thought(store_url: str) -> None:
    script = (Line("Explain", "It opens a thought."),)

    own = engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=script)
    async with gateway_of(store_url, own, model_fields={"output": {"reasoning": "magistral"}}) as client:
        answer = await client.chat(messages=[{"role": "user", "content": "Explain [THINK]"}])
        message = answer.json["choices"][0]["message"]
        assert (message["content"], message.get("reasoning_content")) == ("It opens a thought.", None)


async def test_a_model_may_be_configured_to_call_none(store_url: str) -> None:
    async with gateway_of(store_url, engine(), model_fields={"output": {"tools": "none"}}) as client:
        answer = await client.chat(tools=TOOLS)
        assert (answer.status, answer.error["param"]) == (400, "tools")
        assert (await client.chat(tools=TOOLS, tool_choice="none")).status == 200


async def test_an_upstream_gets_tools_as_they_are(store_url: str) -> None:
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "up", "choices": []}

    async with upstream() as found:
        found.behaves = plain(json.dumps(body).encode())
        pools = [{"name": "up", "engine": "openai", "replicas": [found.url]}]
        model = {"name": "up", "context": 2000, "pools": pools}
        async with gateway_of(store_url, more_models=[model]) as client:
            for fields in (
                {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
                {"tools": TOOLS, "response_format": {"type": "json_object"}},
                {"reasoning_effort": "low", "verbosity": "low", "chat_template_kwargs": {"a": 1}},
            ):
                await client.chat(model="up", messages=HELLO, **fields)
                sent = json.loads(found.heard[-1].body)
                assert {name: sent[name] for name in fields} == fields
            # Bad input is bad input there, too.
            heard = len(found.heard)
            assert (await client.chat(model="up", tools=[*TOOLS, *TOOLS])).error["param"] == "tools[2].function.name"
            assert len(found.heard) == heard
