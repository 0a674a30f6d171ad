"""A format of the answer and tools that may be called, both at once: the one or the other comes of it."""

import json
from importlib import metadata
from typing import Any

import jsonschema_rs
import pytest

from protos.script import Line
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import Answer, Client, gateway_of
from tests.fake_tensorrt_llm.llm import LLM
from tests.gateway.api.anthropic.messages_client import ask
from tests.harness import MODEL, engine_of, readable_corpus, readable_vocabulary, serving, tekken
from tests.loops import until
from tests.trt_engines import trt_engine

ARGUMENTS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "find", "parameters": ARGUMENTS, "strict": True}},
    {"type": "function", "function": {"name": "note"}},
]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}
BOTH: dict[str, Any] = {"tools": TOOLS, "response_format": FORMAT, "max_tokens": 400}

SCRIPT = (
    Line("call one", '[TOOL_CALLS][{"name": "find", "arguments": {"n": 5}}]'),
    Line("call two", '[TOOL_CALLS]find[ARGS]{"n": 5}[TOOL_CALLS]note[ARGS]{"x":[1,2]}'),
    Line("call badly", '[TOOL_CALLS]find[ARGS]{"n":"five"}'),
    Line("call another", "[TOOL_CALLS]lose[ARGS]{}"),
    Line("think and call", '[THINK]Hm.[/THINK][TOOL_CALLS]find[ARGS]{"n": 5}'),
    Line("think and say", '[THINK]Hm, {}.[/THINK]\n\n{"city": "Paris"}'),
    Line("say it", '{"city": "Paris"}'),
    Line("say yes", "yes"),
    Line("say more", '{"city":"Paris"} It is nice.'),
    Line("chat", "Well, hello."),
)


def engine() -> SimulatedEngine:
    return engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=SCRIPT)


def told(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def said(client: Client, text: str, **fields: Any) -> dict[str, Any]:
    """The only message of an answer that has come whole, which is the same as a stream."""
    answer = await client.chat(messages=told(text), seed=3, **fields)
    assert answer.status == 200, answer.error
    (choice,) = answer.json["choices"]
    message: dict[str, Any] = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
    found = {"content": message["content"] or "", "thought": message.get("reasoning_content") or "", "calls": calls}
    assert streamed(await client.chat(messages=told(text), seed=3, stream=True, **fields)) == found
    return found


def streamed(answer: Answer) -> dict[str, Any]:
    *events, done = answer.events
    assert done == "[DONE]"
    content, thought, calls = "", "", list[dict[str, str]]()
    for event in events:
        delta = event["choices"][0]["delta"]
        content += delta.get("content") or ""
        thought += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(calls):
                calls.append({"name": call["function"]["name"], "arguments": ""})
            calls[call["index"]]["arguments"] += call["function"].get("arguments", "")
    return {"content": content, "thought": thought, "calls": calls}


PARIS = '{"city": "Paris"}'
ONE = [{"name": "find", "arguments": '{"n": 5}'}]
TWO = [*ONE, {"name": "note", "arguments": '{"x":[1,2]}'}]


async def test_a_call_is_a_call_and_an_answer_keeps_to_the_format(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        assert await said(client, "call one", **BOTH) == {"content": "", "thought": "", "calls": ONE}
        assert await said(client, "call two", **BOTH) == {"content": "", "thought": "", "calls": TWO}
        assert await said(client, "say it", **BOTH) == {"content": PARIS, "thought": "", "calls": []}
        loose = BOTH | {"response_format": {"type": "json_object"}}
        assert (await said(client, "say it", **loose))["content"] == PARIS
        assert (await said(client, "call one", **loose))["calls"] == ONE
        choice = {"tools": TOOLS, "guided_choice": ["yes", "no"]}
        assert (await said(client, "say yes", **choice))["content"] == "yes"
        assert (await said(client, "call one", **choice))["calls"] == ONE


@pytest.mark.parametrize("text", ["chat", "say more", "call badly", "call another", "Hello!"])
async def test_nothing_else_can_be_written(store_url: str, text: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        kinds = set()
        for user in range(12):
            answer = await client.chat(messages=told(f"{text} {user}"), seed=1, **BOTH)
            message = answer.json["choices"][0]["message"]
            calls = [call["function"] for call in message.get("tool_calls", ())]
            kinds.add(bool(calls))
            if not calls:
                jsonschema_rs.validator_for(SCHEMA).validate(json.loads(message["content"]))
                continue
            assert not message["content"]
            for call in calls:
                arguments = json.loads(call["arguments"])
                assert isinstance(arguments, dict)
                if call["name"] == "find":
                    jsonschema_rs.validator_for(ARGUMENTS).validate(arguments)
        assert kinds == {False, True}


async def test_one_call_is_the_most_where_they_may_not_be_parallel(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        one = BOTH | {"parallel_tool_calls": False}
        assert (await said(client, "call one", **one))["calls"] == ONE
        # The script's two are refused, and what comes instead is the format's or one.
        answer = await said(client, "call two", **one)
        assert answer["calls"] != TWO
        assert len(answer["calls"]) + bool(answer["content"]) == 1


async def test_a_thought_may_come_before_either(store_url: str) -> None:
    output = {"output": {"tools": "mistral", "reasoning": "magistral"}}
    async with gateway_of(store_url, engine(), model_fields=output) as client:
        assert await said(client, "think and call", **BOTH) == {"content": "", "thought": "Hm.", "calls": ONE}
        answer = await said(client, "think and say", **BOTH)
        assert answer == {"content": PARIS, "thought": "Hm, {}.", "calls": []}
        assert (await said(client, "say it", **BOTH))["content"] == PARIS


@pytest.mark.parametrize(
    ("fields", "family", "param", "why"),
    [
        (BOTH, "functionary_v32", "response_format", "calls cannot be guided"),
        ({"tools": TOOLS[1:], "guided_regex": "a+"}, "llama3_json", "guided_regex", "calls cannot be guided"),
        ({"tools": TOOLS[1:], "guided_json": SCHEMA}, "functionary_v32", "guided_json", "calls cannot be guided"),
        ({"tools": TOOLS[1:], "guided_grammar": 'root ::= "x"'}, "mistral", "guided_grammar", "may be called."),
    ],
)
async def test_what_cannot_be_guided_is_refused_by_name(
    store_url: str, fields: dict[str, Any], family: str, param: str, why: str
) -> None:
    tools = [{**tool, "function": {**tool["function"], "strict": False}} for tool in fields["tools"]]
    async with gateway_of(store_url, engine(), model_fields={"output": {"tools": family}}) as client:
        answer = await client.chat(**(fields | {"tools": tools}))
        assert (answer.status, answer.error["param"]) == (400, param)
        assert answer.error["code"] == "unsupported_parameter"
        assert why in answer.error["message"]


async def test_a_strict_tool_that_a_family_cannot_be_held_to_is_refused_by_name(store_url: str) -> None:
    pattern = ARGUMENTS | {"properties": {"n": {"type": "string", "pattern": "^[a-z]+$"}}}
    tools = [{"type": "function", "function": {"name": "find", "parameters": pattern, "strict": True}}]
    for family, status in (("glm45", 400), ("hermes", 200)):
        async with gateway_of(store_url, engine(), model_fields={"output": {"tools": family}}) as client:
            answer = await client.chat(tools=tools, max_tokens=200)
            assert answer.status == status
            if status == 400:
                assert answer.error["param"] == "tools"
                assert "'find' in 'tools' may not be strict here" in answer.error["message"]


async def test_a_schema_that_cannot_be_kept_to_names_the_format(store_url: str) -> None:
    schema = {"minimum": 5, "maximum": 4, "type": "integer"}
    never = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}

    async with gateway_of(store_url, engine()) as client:
        answer = await client.chat(**(BOTH | {"response_format": never}))
        assert (answer.status, answer.error["param"]) == (400, "response_format")


@pytest.mark.parametrize(("version", "taken"), [("0.1.21", False), ("0.1.25", True)])
async def test_an_older_tensorrt_llm_takes_strict_tools_but_not_both(
    store_url: str, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    size = tekken().tokenizer.vocab_size

    own = trt_engine(guided_backend="xgrammar", model=MODEL, max_sequence_tokens=2000, vocab_size=size)
    await own.start(lambda step: None)
    async with serving(own) as (_, address):
        pool = {"name": "p", "shape": {"tp": 2}, "engine": "tensorrt_llm", "replicas": [f"grpc://{address}"]}
        async with gateway_of(store_url, addresses=[address], model_fields={"pools": [pool]}) as client:
            await until(lambda: client.gateway.models[MODEL].fleet.candidates())
            assert (await client.chat(tools=TOOLS, max_tokens=5)).status == 200
            tag = json.loads(LLM.last.calls[-1]["sampling"].guided_decoding.structural_tag)
            assert ("format" in tag, "structures" in tag) == (taken, not taken)
            for stream in (False, True):
                both = await client.chat(**BOTH, stream=stream)
                assert both.status == (200 if taken else 400)
                assert taken or both.error["param"] == "response_format"
    await own.stop()


async def test_responses_take_both(store_url: str) -> None:
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    fields = {"text": {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA}}, "tools": tools}

    async with gateway_of(store_url, engine()) as client:
        for text, kind in (("call one", "function_call"), ("say it", "message")):
            body = {"model": MODEL, "input": text, "store": False, "max_output_tokens": 400} | fields
            answer = await client.request("POST", "/v1/responses", body)
            assert answer.status == 200, answer.json
            (item,) = answer.json["output"]
            assert item["type"] == kind
            got = item["arguments"] if kind == "function_call" else item["content"][0]["text"]
            assert json.loads(got) == ({"n": 5} if kind == "function_call" else {"city": "Paris"})


async def test_messages_take_both(store_url: str) -> None:
    tools = [{"name": "find", "input_schema": ARGUMENTS}]
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}

    async with gateway_of(store_url, engine()) as client:
        for text, kind in (("call one", "tool_use"), ("say it", "text")):
            answer = await ask(client, messages=told(text), max_tokens=400, tools=tools, output_config=config)
            assert answer.status == 200, answer.json
            (block,) = answer.json["content"]
            assert block["type"] == kind
            assert (block["input"] if kind == "tool_use" else json.loads(block["text"])) == (
                {"n": 5} if kind == "tool_use" else {"city": "Paris"}
            )


CALL_LIKE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "parameters": ARGUMENTS},
    "required": ["name", "parameters"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("format_", "status"),
    [
        (FORMAT, 200),
        ({"type": "json_object"}, 400),
        ({"type": "json_schema", "json_schema": {"name": "call", "schema": CALL_LIKE}}, 400),
        ({"type": "json_schema", "json_schema": {"name": "open", "schema": {"type": "object"}}}, 400),
        ({"type": "json_schema", "json_schema": {"name": "list", "schema": {"type": "array", "items": SCHEMA}}}, 200),
    ],
    ids=["closed", "any object", "like a call", "open", "list"],
)
async def test_calls_without_a_mark_must_be_told_from_answers(
    store_url: str, format_: dict[str, Any], status: int
) -> None:
    async with gateway_of(store_url, engine(), model_fields={"output": {"tools": "llama3_json"}}) as client:
        fields = {"tools": TOOLS, "response_format": format_, "max_tokens": 400}
        answer = await client.chat(messages=told("say it"), **fields)
        assert answer.status == status
        if status == 400:
            assert answer.error["param"] == "response_format"
            assert "told from such answers" in answer.error["message"]
