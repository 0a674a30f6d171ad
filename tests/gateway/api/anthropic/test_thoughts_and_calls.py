"""Through the application: thoughts and calls of models whose tokens the gateway itself reads."""

import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from protos.script import Line
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import Answer, gateway_of
from tests.gateway.api.anthropic.messages_client import COUNT, ask, error_of, events_of
from tests.gateway.api.test_filters import MAIL, SAFETY
from tests.harness import engine_of, readable_corpus, readable_vocabulary

TOOL = {"name": "send", "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}}}
ASKED = [{"role": "user", "content": "Please send it."}]
CALL = json.dumps([{"name": "send", "arguments": {"to": MAIL}}])
SCRIPT = (
    Line("It is sent", "Done."),
    Line("send it", f"<think>To whom?</think>I send it.[TOOL_CALLS]{CALL}"),
    Line("cut", '[TOOL_CALLS][{"name": "send", "arguments": {"to": "somebody with a long, long, long name"}}]'),
)
THINKS = {"output": {"reasoning": "think"}}
_events: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def engine() -> SimulatedEngine:
    return engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=SCRIPT)


def message_of(answer: Answer) -> dict[str, Any]:
    """The message, streamed or whole, but for its signatures."""
    assert answer.status == 200
    if answer.headers["content-type"] == "application/json":
        message: dict[str, Any] = answer.json
    else:
        snapshot, buffers = None, dict[int, bytes]()
        for event in events_of(answer.body):
            if event["type"] != "ping":
                checked = _events.validate_python(event)
                snapshot = accumulate_event(event=checked, current_snapshot=snapshot, json_bufs=buffers)
        assert snapshot is not None
        message = snapshot.to_dict()
    for block in message["content"]:
        block.pop("signature", None)
    return message


@pytest.mark.parametrize("stream", [False, True])
async def test_a_thought_a_text_and_a_call(store_url: str, stream: bool) -> None:
    async with gateway_of(store_url, engine(), model_fields=THINKS) as client:
        fields: dict[str, Any] = {"messages": ASKED, "tools": [TOOL], "max_tokens": 200, "stream": stream}
        message = message_of(await ask(client, **fields))
        thought = {"type": "thinking", "thinking": "To whom?"}
        text = {"type": "text", "text": "I send it."}
        use = {"type": "tool_use", "id": message["content"][-1]["id"], "name": "send", "input": {"to": MAIL}}
        assert message["content"] == [thought, text, use]
        assert message["stop_reason"] == "tool_use"
        assert 0 < message["usage"]["output_tokens_details"]["thinking_tokens"] < 20
        for thinking, shown in (
            ({"type": "adaptive", "display": "omitted"}, [thought | {"thinking": ""}]),
            ({"type": "enabled", "budget_tokens": 1024}, [thought]),
            ({"type": "disabled"}, []),
        ):
            asked = fields | {"thinking": thinking, "max_tokens": 1500}
            *others, last = message_of(await ask(client, **asked))["content"]
            assert others == [*shown, text]
            assert last["input"] == use["input"]
        # It goes back as it came.
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "It is sent."}
        talk = [*ASKED, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": [result]}]
        assert message_of(await ask(client, **fields | {"messages": talk}))["content"] == [text | {"text": "Done."}]
        counted = (await ask(client, COUNT, messages=talk, tools=[TOOL])).json["input_tokens"]
        usage = message_of(await ask(client, **fields | {"messages": talk}))["usage"]
        assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_call_says_is_filtered(store_url: str, stream: bool) -> None:
    async with gateway_of(store_url, engine(), safety=SAFETY) as client:
        answer = await ask(client, messages=ASKED, tools=[TOOL], max_tokens=200, stream=stream)
        assert message_of(answer)["content"][-1]["input"] == {"to": "[EMAIL]"}
        assert MAIL.encode() not in answer.body


async def test_a_call_that_is_cut_short(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        asked = [{"role": "user", "content": "Be cut."}]
        for stream in (False, True):
            answer = await ask(client, messages=asked, tools=[TOOL], max_tokens=18, stream=stream)
            assert message_of(answer)["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"tools": [TOOL | {"input_schema": {"type": 5}}]}, "tools.0.input_schema"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": 5}}}}, "output_config.format.schema"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}
                ]
            },
            "messages.0.content.0",
        ),
    ],
)
async def test_what_a_chat_refuses_is_told_by_its_place_here(
    store_url: str, fields: dict[str, Any], place: str
) -> None:
    async with gateway_of(store_url, engine()) as client:
        for path in ("/v1/messages", COUNT):
            answer = await ask(client, path, **fields)
            assert answer.status == 400
            assert place in error_of(answer)["message"]
