"""Through the application: a conversation is compacted, and goes on from what it was compacted to."""

from typing import Any

import openai.types.responses as sdk
import orjson
import pytest

from gateway.api.responses.chat_messages import Messages
from gateway.api.responses.compact import ASKED
from gateway.api.responses.compaction_item import compaction_item, summary_of
from gateway.api.responses.responses_tools import ChatTools
from protos.errors import InvalidRequest
from safety.injection.prompts import PromptInjectionFilter
from tests.asgi import Client, gateway_of
from tests.gateway.api.relay.test_relay_answer import NAME
from tests.gateway.api.responses.client import PATH, chat_of, create, echo, relayed, told
from tests.gateway.api.test_filters import TERMS, says
from tests.harness import MODEL

COMPACT = f"{PATH}/compact"
TERM = "frobnicate"
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Hello, Ada."},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "nothing"},
    {"role": "user", "content": "Look again."},
]


def messages_of(*items: dict[str, Any]) -> list[dict[str, Any]]:
    messages = Messages(ChatTools({}))
    for position, item in enumerate(items):
        messages.add(item, f"input[{position}]")
    assert len(messages.messages) == len(messages.origins)
    return messages.messages


async def compacted(client: Client, **fields: Any) -> dict[str, Any]:
    answer = await client.request("POST", COMPACT, {"model": NAME, "input": TALK} | fields)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    sdk.ResponseUsage.model_validate(found["usage"])
    sdk.ResponseCompactionItem.model_validate(found["output"][-1])
    assert found.keys() == sdk.CompactedResponse.model_fields.keys() - {"image"}
    return found


async def test_the_model_is_asked_for_a_summary_which_the_next_request_takes(store_url: str) -> None:
    async with relayed(store_url, lambda body: chat_of({"content": " She is Ada.\n"})) as (client, found):
        first = await compacted(client, instructions="Be kind.", tools=[{"type": "custom", "name": "x"}], text={})
        asked = told(found)
        assert asked[0] == {"role": "system", "content": "Be kind."}
        assert [message["role"] for message in asked[1:]] == ["user", "assistant", "tool", "user", "user"]
        assert asked[-1] == {"role": "user", "content": ASKED}
        assert "tools" not in orjson.loads(found.heard[-1].body)
        *kept, item = first["output"]
        assert [one["content"][0]["text"] for one in kept] == ["My name is Ada.", "Look again."]
        assert first["usage"]["input_tokens"] == 7
        assert (await create(client, input=[*first["output"], {"role": "user", "content": "Who am I?"}])).status == 200
        [message] = told(found)
        assert message["role"] == "user"
        assert message["content"].startswith("My name is Ada.\n\nLook again.\n\nSummary of")
        assert message["content"].endswith("\n\nShe is Ada.\n\nWho am I?")
        # What was compacted can be compacted again.
        second = await compacted(client, input=[item, {"role": "user", "content": "And now?"}])
        assert [one["type"] for one in second["output"]] == ["message", "compaction"]


async def test_a_stored_conversation_is_compacted_by_its_last_response(store_url: str) -> None:
    async with relayed(store_url, echo) as (client, found):
        first = (await create(client, input="My name is Ada.")).json
        answer = await compacted(client, input=None, previous_response_id=first["id"])
        assert [message["role"] for message in told(found)] == ["user", "assistant", "user"]
        assert [one["type"] for one in answer["output"]] == ["message", "compaction"]
        # An item is stored as input like any other.
        stored = (await create(client, input=[*answer["output"], {"role": "user", "content": "Who am I?"}])).json
        listed = (await client.request("GET", f"{PATH}/{stored['id']}/input_items")).json["data"]
        assert {one["type"] for one in listed} == {"message", "compaction"}
        assert (await create(client, input="Sure?", previous_response_id=stored["id"])).status == 200


async def test_an_engine_of_tokens_writes_a_summary(store_url: str) -> None:
    async with gateway_of(store_url, says("She is Ada.")) as client:
        answer = await compacted(client, model=MODEL, input="Hello", reasoning={"effort": "low"})
        content = answer["output"][-1]["encrypted_content"]
        assert summary_of(content, "input[0]").startswith("Summary of")
        assert answer["usage"]["output_tokens"] > 0


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"input": None}, 400, "input"),
        ({"model": None}, 400, "model"),
        ({"stream": True}, 400, "stream"),
        ({"service_tier": "flex"}, 400, "service_tier"),
        ({"input": [{"type": "web_search_call"}]}, 400, "input[0].type"),
        ({"input": [{"type": "compaction", "encrypted_content": "gAAAA"}]}, 400, "input[0].encrypted_content"),
        ({"previous_response_id": "resp_x"}, 400, "previous_response_id"),
        ({"model": "no-such-model"}, 404, "model"),
    ],
)
async def test_what_cannot_be_compacted_is_named(
    store_url: str, fields: dict[str, Any], status: int, param: str
) -> None:
    async with relayed(store_url, echo) as (client, _):
        answer = await client.request("POST", COMPACT, {"model": NAME, "input": TALK} | fields)
        assert (answer.status, answer.json["error"]["param"]) == (status, param), answer.body


@pytest.mark.parametrize(("message", "finish"), [({"content": "She is"}, "length"), ({"content": " "}, "stop")])
async def test_half_a_summary_is_none(store_url: str, message: dict[str, Any], finish: str) -> None:
    async with relayed(store_url, lambda body: chat_of(message, finish)) as (client, _):
        answer = await client.request("POST", COMPACT, {"model": NAME, "input": TALK})
        assert (answer.status, answer.json["error"]["code"]) == (502, "replica_failed"), answer.body


async def test_filters_see_the_summary_when_it_is_made_and_when_it_comes_back(store_url: str) -> None:
    reply = chat_of({"content": f"We shall {TERM}."})
    rules = [{"filter": "list", "action": "redact"}]
    safety = {"filters": [TERMS], "input": rules, "output": rules}
    async with relayed(store_url, lambda body: reply, safety=safety) as (client, found):
        answer = await compacted(client)
        assert TERM not in summary_of(answer["output"][-1]["encrypted_content"], "")
        assert (await create(client, input=[compaction_item("cmp_1", f"We shall {TERM}.")])).status == 200
        assert TERM not in told(found)[0]["content"]


def test_what_the_gateway_writes_itself_is_not_taken_for_an_injection() -> None:
    item = compaction_item("cmp_1", "She is Ada.")
    for text in (ASKED, summary_of(item["encrypted_content"], "")):
        assert not PromptInjectionFilter().scan(text)


def test_a_summary_joins_what_the_user_says_about_it_and_nothing_else() -> None:
    item = compaction_item("cmp_1", "So far.")
    text = summary_of(item["encrypted_content"], "")
    user, assistant = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    assert messages_of(item) == [{"role": "user", "content": text}]
    assert messages_of(assistant, item, user) == [assistant, {"role": "user", "content": f"{text}\n\na"}]
    assert messages_of(user, item, assistant, user, user) == [
        {"role": "user", "content": f"a\n\n{text}"},
        assistant,
        user,
        user,
    ]
    parts = {"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]}
    [joined] = messages_of(parts, item, user)
    assert [part["type"] for part in joined["content"]] == ["image_url", "text", "text"]
    assert messages_of(user, {"role": "developer", "content": "c"}, item) == [
        user,
        {"role": "developer", "content": "c"},
        {"role": "user", "content": text},
    ]


@pytest.mark.parametrize("content", ["", "penstock1.!", "penstock1._w==", "penstock1.YQ", "other"])
def test_an_item_made_elsewhere_is_refused(content: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        summary_of(content, "input[3]")
    assert caught.value.param == "input[3].encrypted_content"
