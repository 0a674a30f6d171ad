"""Structured output through the whole gateway, with an engine that honours guides."""

import dataclasses
import json
import re
from typing import Any

import jsonschema_rs
import pytest

from gateway.text.tokens.chat_template import ChatTemplate
from protos.script import Line
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import CHAT, COMPLETIONS, gateway_of
from tests.harness import MODEL, engine_of, readable_corpus, readable_vocabulary, tekken

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "people": {"type": "array", "items": {"type": "string"}},
        "mood": {"enum": ["calm", "loud"]},
        "height": {"type": ["number", "null"]},
    },
    "required": ["city", "people", "mood", "height"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}


def engine(**options: Any) -> SimulatedEngine:
    return engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), **options)


async def test_an_answer_keeps_to_its_schema(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        answer = await client.chat(response_format=FORMAT, n=2, max_tokens=500)
        assert answer.status == 200
        for choice in answer.json["choices"]:
            assert choice["finish_reason"] == "stop"
            jsonschema_rs.validator_for(SCHEMA).validate(json.loads(choice["message"]["content"]))
        streamed = await client.chat(response_format=FORMAT, max_tokens=500, stream=True)
        *events, done = streamed.events
        assert done == "[DONE]"
        assert events[-1]["choices"][0]["finish_reason"] == "stop"
        text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
        jsonschema_rs.validator_for(SCHEMA).validate(json.loads(text))
        assert len(events) > 2
        cut = await client.chat(response_format=FORMAT, max_tokens=3)
        assert cut.json["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("path", "fields", "regex"),
    [
        (CHAT, {"response_format": {"type": "json_object"}}, r"\{.*\}"),
        (CHAT, {"guided_json": {"type": "integer"}}, "-?[0-9]+"),
        (CHAT, {"guided_choice": ["yes", "no (really)"]}, r"yes|no \(really\)"),
        (CHAT, {"guided_regex": "[0-9]{3}-[a-z]{2}"}, "[0-9]{3}-[a-z]{2}"),
        (COMPLETIONS, {"guided_grammar": 'root ::= "a" [0-9]+'}, "a[0-9]+"),
    ],
)
async def test_every_guide_is_honoured(store_url: str, path: str, fields: dict[str, Any], regex: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        answer = await (client.chat if path == CHAT else client.complete)(max_tokens=300, **fields)
        assert answer.status == 200
        choice = answer.json["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert re.fullmatch(regex, choice["message"]["content"] if path == CHAT else choice["text"])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_grammar": 'root ::= missing "x"'}, "guided_grammar"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {
                "type": "integer", "minimum": 5, "maximum": 4}}}},
            "response_format",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_engine_refuses_names_the_clients_parameter(
    store_url: str, fields: dict[str, Any], param: str, stream: bool
) -> None:
    async with gateway_of(store_url, engine()) as client:
        answer = await client.chat(stream=stream, **fields)
        assert answer.status == 400
        assert answer.error["param"] == param
        assert answer.error["code"] == "unsupported_parameter"
        assert f"'{param}'" in answer.error["message"]


async def test_what_is_guided_is_no_thought_that_the_prompt_has_opened(store_url: str) -> None:
    template = "{% for m in messages %}[INST]{{ m.content }}[/INST]{% endfor %}<think>\n"

    thinking = {"output": {"reasoning": "think"}}
    async with gateway_of(store_url, engine(), model_fields=thinking) as client:
        chat_format = ChatTemplate(template, specials=tekken().tokenizer.specials)
        client.gateway.models[MODEL] = dataclasses.replace(client.gateway.models[MODEL], chat_format=chat_format)
        free = (await client.chat()).json["choices"][0]["message"]
        assert (free["content"], bool(free["reasoning_content"])) == ("", True)
        guided = (await client.chat(guided_choice=["yes", "no"])).json
        assert guided["choices"][0]["message"]["content"] in ("yes", "no")
        assert "reasoning_content" not in guided["choices"][0]["message"]
        assert guided["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


async def test_a_scripted_answer_is_said_word_for_word(store_url: str) -> None:
    script = (Line("weather", "It rains, [INST] they say."), Line("[INST]Hello!", '{"city": 5}'))

    async with gateway_of(store_url, engine(script=script)) as client:
        greeted = await client.chat(n=2)
        assert [choice["message"]["content"] for choice in greeted.json["choices"]] == ['{"city": 5}'] * 2
        assert {choice["finish_reason"] for choice in greeted.json["choices"]} == {"stop"}
        asked = await client.chat(messages=[{"role": "user", "content": "What weather?"}], max_tokens=50)
        # The second is a control token, which is no text.
        assert asked.json["choices"][0]["message"]["content"] == "It rains,  they say."
        other = await client.chat(messages=[{"role": "user", "content": "And you?"}])
        assert other.json["choices"][0]["message"]["content"]
        # It is no answer to this schema.
        guided = await client.chat(response_format=FORMAT, max_tokens=500)
        jsonschema_rs.validator_for(SCHEMA).validate(json.loads(guided.json["choices"][0]["message"]["content"]))
