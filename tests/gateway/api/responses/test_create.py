"""Through the application: responses in one piece and as events, and what is kept of them."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from gateway.jobs.responses.response_scripts import ADD_ITEMS
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from protos.errors import StoreUnavailable
from tests.asgi import gateway_of
from tests.gateway.api.relay.test_relay_answer import NAME
from tests.gateway.api.responses.client import (
    CONVERSATIONS,
    PATH,
    WEATHER,
    chat_of,
    create,
    created,
    events_of,
    get,
    other_tenants,
    relayed,
    text_of,
    told,
)
from tests.gateway.api.responses.shapes import checked, types_of
from tests.gateway.api.test_filters import MAIL, SAFETY, says
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until
from tests.upstreams import EVENT, STREAM, Caller, Heard, chunk

ACME = {"name": "acme"}


class Attempts:
    """Stands in front of a gateway's store of responses."""

    def __init__(self, place: Any) -> None:
        self._storage = place._storage
        place._storage = self
        self.count = 0
        self.away = False
        #: Scripts that are refused, as writes are where the store is full.
        self.refused: tuple[Script, ...] = ()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> Any:
        self.count += 1
        if self.away or script in self.refused:
            raise StoreUnavailable
        return await self._storage.run(script, keys, arguments)

    async def ping(self) -> None:
        if self.away:
            raise StoreUnavailable
        await self._storage.ping()


async def test_tokens_become_a_response(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {
            "model": MODEL,
            "max_output_tokens": 12,
            "temperature": 0,
            "instructions": "Talk.",
        }
        whole = checked(await created(client, **fields))
        assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert whole["usage"]["output_tokens"] == 12
        assert text_of(whole)
        events = await events_of(client, **fields)
        final = checked(events[-1]["response"])
        assert types_of(events)[-1] == "incomplete"
        assert "output_text.delta" in types_of(events)
        assert "".join(event.get("delta", "") for event in events) == text_of(final)
        # Both were kept as they were told.
        for response in (whole, final):
            assert await get(client, f"{PATH}/{response['id']}") == response


async def test_probabilities_of_tokens(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {"model": MODEL, "max_output_tokens": 5, "top_logprobs": 2, "store": False}
        whole = checked(await created(client, **fields, include=["message.output_text.logprobs"]))
        (part,) = whole["output"][0]["content"]
        assert len(part["logprobs"]) == 5
        assert "".join(one["token"] for one in part["logprobs"]) == part["text"]
        assert [len(one["top_logprobs"]) for one in part["logprobs"]] == [2] * 5
        events = await events_of(client, **fields)
        shown = [one for event in events if event["type"].endswith("text.delta") for one in event["logprobs"]]
        assert len(shown) == 5


@pytest.mark.parametrize("stream", [False, True])
async def test_turns_go_on_from_one_another(store_url: str, stream: bool) -> None:
    async def turn(client: Any, **fields: Any) -> dict[str, Any]:
        if not stream:
            return await created(client, **fields)
        found: dict[str, Any] = (await events_of(client, **fields))[-1]["response"]
        return found

    async with relayed(store_url) as (client, found):
        attempts = Attempts(client.gateway.services.responses._space)
        first = checked(await turn(client, instructions="Be kind.", input="one"))
        assert attempts.count == 1
        assert (text_of(first), first["status"]) == ("You said: one", "completed")
        assert first["usage"]["input_tokens_details"]["cached_tokens"] == 5
        second = await turn(client, previous_response_id=first["id"], input="two")
        assert attempts.count == 3
        third = await turn(client, previous_response_id=second["id"], instructions="Be brief.", input="three")
        said = [(message["role"], message["content"]) for message in told(found)]
        # Instructions are those of each request alone.
        assert said == [
            ("system", "Be brief."),
            ("user", "one"),
            ("assistant", "You said: one"),
            ("user", "two"),
            ("assistant", "You said: two"),
            ("user", "three"),
        ]
        assert third["previous_response_id"] == second["id"]
        listed = await get(client, f"{PATH}/{third['id']}/input_items?order=asc")
        assert [item["content"][0]["text"] for item in listed["data"]] == [text for _, text in said[1:]]
        assert (listed["first_id"], listed["has_more"]) == (listed["data"][0]["id"], False)
        assert listed["data"][1] == first["output"][0]
        page = await get(client, f"{PATH}/{third['id']}/input_items?limit=2")
        assert [item["content"][0]["text"] for item in page["data"]] == ["three", "You said: two"]
        assert page["has_more"]
        page = await get(client, f"{PATH}/{third['id']}/input_items?limit=3&after={page['last_id']}")
        assert [item["content"][0]["text"] for item in page["data"]] == ["two", "You said: one", "one"]
        assert not page["has_more"]
        error = await get(client, f"{PATH}/{third['id']}/input_items?after=msg_x", 404)
        assert error["code"] == "item_not_found"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_function_is_called_and_answered(store_url: str, stream: bool) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        if body["messages"][-1]["role"] == "tool":
            return chat_of({"content": f"It is {body['messages'][-1]['content']}."})
        call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
        return chat_of({"reasoning_content": "I must look.", "tool_calls": [call]}, "tool_calls")

    def user_item() -> dict[str, Any]:
        return {"role": "user", "content": "How is it in Rome?"}

    async with relayed(store_url, reply) as (client, found):
        fields: dict[str, Any] = {"tools": [WEATHER], "input": "How is it in Rome?"}
        if stream:
            first = (await events_of(client, **fields))[-1]["response"]
        else:
            first = await created(client, **fields)
        thought, call = checked(first)["output"]
        assert thought["content"][0]["text"] == "I must look."
        assert (call["type"], call["call_id"], call["name"]) == ("function_call", "c1", "weather")
        assert orjson.loads(call["arguments"]) == {"city": "Rome"}
        output = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
        answer = await created(client, tools=[WEATHER], previous_response_id=first["id"], input=[output])
        assert text_of(answer) == "It is sunny."
        user, asked, tool = told(found)
        assert user["content"] == "How is it in Rome?"
        assert asked["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Rome"}'}
        assert asked["reasoning_content"] == "I must look."
        assert tool == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
        # The same without the store: items of the answer are an input too, or are referred to.
        again = await created(client, tools=[WEATHER], store=False, input=[user_item(), *first["output"], output])
        assert text_of(again) == "It is sunny."
        assert told(found) == [user, asked, tool]
        references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
        referring = await created(client, tools=[WEATHER], input=[user_item(), *references, output])
        assert told(found) == [user, asked, tool]
        listed = await get(client, f"{PATH}/{referring['id']}/input_items?order=asc")
        assert [item["type"] for item in listed["data"]] == [
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
        ]
        lost = await create(client, input=[{"id": "fc_" + "0" * 24 + "_0"}])
        assert (lost.status, lost.error["code"], lost.error["param"]) == (404, "item_not_found", "input[0]")


async def test_what_is_not_kept_is_not_there(store_url: str) -> None:
    async with relayed(store_url) as (client, _):
        attempts = Attempts(client.gateway.services.responses._space)
        response = await created(client, store=False)
        assert (attempts.count, response["store"]) == (0, False)
        await get(client, f"{PATH}/{response['id']}", 404)
        kept = await created(client)
        gone = await client.request("DELETE", f"{PATH}/{kept['id']}")
        assert gone.json == {"id": kept["id"], "object": "response", "deleted": True}
        for path in (kept["id"], "resp_" + "0" * 24, "index", "conv_" + "0" * 24, "x" * 300):
            error = await get(client, f"{PATH}/{path}", 404)
            assert error["code"] == "response_not_found"
            assert (await client.request("DELETE", f"{PATH}/{path}")).status == 404
            assert (await client.request("POST", f"{PATH}/{path}/cancel")).status == 404
            await get(client, f"{PATH}/{path}/input_items", 404)
        for previous in (kept["id"], "resp_" + "0" * 24, "index"):
            answer = await create(client, previous_response_id=previous)
            assert (answer.status, answer.error["code"]) == (400, "previous_response_not_found")
            assert answer.error["param"] == "previous_response_id"


async def test_another_tenants_response_is_not_there(store_url: str) -> None:
    async with relayed(store_url, tenant=ACME) as (client, _):
        response = await created(client)
        other = await other_tenants(client, store_url, "default")
        path = f"{PATH}/{response['id']}"
        for method, url in (
            ("GET", path),
            ("DELETE", path),
            ("POST", f"{path}/cancel"),
            ("GET", f"{path}/input_items"),
        ):
            assert (await other.request(method, url)).status == 404
        answer = await create(other, previous_response_id=response["id"])
        assert (answer.status, answer.error["code"]) == (400, "previous_response_not_found")
        reference = await create(other, input=[{"id": response["output"][0]["id"]}])
        assert reference.status == 404
        assert (await get(client, path))["id"] == response["id"]


async def test_a_store_that_goes_away(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with relayed(store_url) as (client, found):
        first = await created(client)
        attempts = Attempts(client.gateway.services.responses._space)
        attempts.away = True
        with caplog.at_level(logging.WARNING):
            # It had begun; an answer would say that it is kept.
            answer = await create(client)
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        assert "'store' false" in answer.error["message"]
        assert "could not be kept" in caplog.text
        heard = len(found.heard)
        for fields in ({}, {"stream": True}, {"background": True}, {"previous_response_id": first["id"]}):
            answer = await create(client, **fields)
            assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        assert len(found.heard) == heard
        assert (await create(client, store=False)).status == 200
        attempts.away = False
        assert (await create(client)).status == 200


@pytest.mark.parametrize("upstream", [False, True])
async def test_a_stream_that_cannot_be_kept_fails(store_url: str, upstream: bool) -> None:
    engine = engine_of(corpus=readable_corpus())
    async with contextlib.AsyncExitStack() as stack:
        if upstream:
            client, _ = await stack.enter_async_context(relayed(store_url))
        else:
            client = await stack.enter_async_context(gateway_of(store_url, engine))
        attempts = Attempts(client.gateway.services.responses._space)
        attempts.away = True
        events = await events_of(client, model=NAME if upstream else MODEL)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        kinds = [event["type"] for event in events]
        assert "response.output_item.done" in kinds
        assert kinds[-1] == "response.failed"
        assert not {"response.completed", "response.incomplete"}.intersection(kinds)
        last = events[-1]["response"]
        assert last["error"]["code"] == "server_error"
        assert last["output"]
        attempts.away = False
        await get(client, f"{PATH}/{last['id']}", 404)


async def test_what_a_conversation_would_get_is_kept_or_refused(store_url: str) -> None:
    async with relayed(store_url) as (client, found):
        conversation = (await client.request("POST", "/v1/conversations", {})).json["id"]
        attempts = Attempts(client.gateway.services.responses._space)
        attempts.refused = (ADD_ITEMS,)
        answer = await create(client, store=False, conversation=conversation)
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        heard = len(found.heard)
        attempts.away = True
        answer = await create(client, store=False, conversation=conversation)
        assert (answer.status, len(found.heard)) == (503, heard)


async def test_a_gateway_that_keeps_nothing(store_url: str) -> None:
    async with relayed(store_url, responses={"store": False}) as (client, _):
        response = await created(client)
        assert response["store"] is False
        await get(client, f"{PATH}/{response['id']}", 404)
        for name, value in (
            ("store", True),
            ("background", True),
            ("previous_response_id", response["id"]),
            ("conversation", "conv_" + "0" * 24),
        ):
            answer = await create(client, **{name: value})
            assert (answer.status, answer.error["param"]) == (400, name)
            assert answer.error["code"] == "unsupported_parameter"
        assert (await client.request("POST", "/v1/conversations", {})).status == 400


async def test_a_long_input_is_only_taken_if_it_is_not_kept(store_url: str) -> None:
    async with relayed(store_url, responses={"max_bytes": 4096}) as (client, found):
        answer = await create(client, input="x" * 5000)
        assert (answer.status, answer.error["param"]) == (400, "input")
        assert not found.heard
        assert (await create(client, input="x" * 5000, store=False)).status == 200


IMAGE = {"type": "input_image", "image_url": "https://example.com/a.png"}
RESULT = {"type": "function_call_output", "call_id": "nothing", "output": "x"}
WEB = {"type": "web_search"}


async def test_errors_name_what_their_client_wrote(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        for fields, param in (
            ({"max_output_tokens": 0}, "max_output_tokens"),
            ({"input": [{"role": "user", "content": [IMAGE]}]}, "input[0].content[0].type"),
            ({"input": [{"role": "user", "content": "x"}, RESULT]}, "input[1].call_id"),
            (
                {"tools": [WEB, {"type": "function", "name": "f", "parameters": {"type": 5}}]},
                "tools[1].parameters.type",
            ),
            ({"model": "nothing"}, "model"),
            ({"text": {"format": {"type": "json_schema"}}}, "text.format.name"),
            ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
            ({"verbosity": "loud"}, "verbosity"),
            ({"reasoning_effort": "much"}, "reasoning_effort"),
            ({"messages": []}, "messages"),
            ({"response_format": {"type": "json_object"}}, "response_format"),
        ):
            answer = await create(client, **({"model": MODEL} | fields))
            assert answer.status in (400, 404)
            assert answer.error["param"] == param
            assert "." not in param or f"'{param.removesuffix('.type')}" in answer.error["message"]
            assert "messages[" not in answer.error["message"]
        answer = await client.request("POST", PATH, b"{")
        assert answer.status == 400


async def test_filters_see_every_turn(store_url: str) -> None:
    async with gateway_of(store_url, says(f"Write to {MAIL} now. "), safety=SAFETY) as client:
        fields: dict[str, Any] = {"model": MODEL, "max_output_tokens": 30}
        answer = await create(client, input="Please frobnicate it", **fields)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "content_filter", "input")
        whole = await created(client, input="Hello", **fields)
        assert "[EMAIL]" in text_of(whole)
        assert MAIL not in text_of(whole)
        final = (await events_of(client, input="Hello", **fields))[-1]["response"]
        assert "[EMAIL]" in text_of(final)
        assert MAIL not in orjson.dumps(await get(client, f"{PATH}/{final['id']}")).decode()


async def test_an_upstream_that_breaks_makes_a_response_fail(store_url: str) -> None:
    async def breaks(caller: Caller, heard: Heard) -> bool:
        await caller.say(STREAM + chunk(EVENT % b"Hel"))
        await asyncio.sleep(0.05)
        return False

    async with relayed(store_url) as (client, found):
        found.behaves = breaks
        events = await events_of(client)
        assert types_of(events)[-1] == "failed"
        assert events[-1]["response"]["error"]["code"] == "server_error"
        assert text_of(events[-1]["response"]) == "Hel"
        await get(client, f"{PATH}/{events[-1]['response']['id']}", 404)


async def test_items_that_were_sent_again_are_listed_once_each(store_url: str) -> None:
    async with relayed(store_url) as (client, _):
        first = await created(client, input="one")
        again = [*first["output"], {"role": "user", "content": "two"}, *first["output"]]
        second = await created(client, previous_response_id=first["id"], input=again)
        path, after, texts = f"{PATH}/{second['id']}/input_items?order=asc&limit=2", "", []
        for _page in range(3):
            page = await get(client, path + after)
            texts += [item["content"][0]["text"] for item in page["data"]]
            after = f"&after={page['last_id']}"
        assert texts == ["one", "You said: one", "You said: one", "two", "You said: one"]
        assert page["has_more"] is False


async def test_tokens_of_an_input_are_counted(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {"model": MODEL, "instructions": "Talk.", "input": "Hello there"}
        response = await created(client, max_output_tokens=3, **fields)
        counted = await client.request("POST", f"{PATH}/input_tokens", fields)
        assert counted.json == {
            "object": "response.input_tokens",
            "input_tokens": response["usage"]["input_tokens"],
        }
        longer = await client.request("POST", f"{PATH}/input_tokens", fields | {"previous_response_id": response["id"]})
        assert longer.json["input_tokens"] > response["usage"]["input_tokens"]
        refused = await client.request("POST", f"{PATH}/input_tokens", fields | {"temperature": 1})
        assert (refused.status, refused.error["param"]) == (400, "temperature")


async def test_counting_tokens_is_a_request(store_url: str) -> None:
    engine = engine_of(corpus=readable_corpus())
    async with gateway_of(store_url, engine, tenant={"name": "acme", "limits": {"rpm": 1}}) as client:
        statuses = [
            (await client.request("POST", f"{PATH}/input_tokens", {"model": MODEL, "input": "x"})).status
            for _ in range(2)
        ]
        assert statuses == [200, 429]


async def test_a_client_that_leaves_ends_its_response(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus(), instant=False, pace_seconds=0.02)) as client:
        call = client.call("POST", PATH)
        call.put(orjson.dumps({"model": MODEL, "input": "Hello", "stream": True, "max_output_tokens": 500}))
        await until(lambda: len(call.sent) > 3)
        response_id = orjson.loads(call.sent[1]["body"].split(b"\n")[1].removeprefix(b"data: "))["response"]["id"]
        call.disconnect()
        assert call.task is not None
        await call.task
        await get(client, f"{PATH}/{response_id}", 404)


async def test_a_key_for_responses_alone(store_url: str) -> None:
    async with relayed(store_url) as (client, _):
        store = Store(store_url, timeout=10.0)
        for allowed, status in (("responses", 200), ("chat", 403)):
            request = KeyRequest(name=allowed, endpoints=(allowed,))  # type: ignore[arg-type]
            _, client.key = await KeyStore(store).create(request)
            assert (await create(client)).status == status
            assert (await client.request("POST", CONVERSATIONS, {})).status == status
            assert (await client.chat(model=NAME)).status == (200 if allowed == "chat" else 403)
        await store.aclose()


async def test_where_a_response_would_go(store_url: str) -> None:
    async with relayed(store_url, explain=True) as (client, found):
        headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-penstock-explain", b"dry-run")]
        body: dict[str, Any] = {"model": NAME, "input": "x"}
        answer = await client.request("POST", PATH, body, headers)
        assert answer.status == 200
        answer = await client.request("POST", PATH, body | {"background": True}, headers)
        assert (answer.status, answer.error["param"]) == (400, "background")
        assert not found.heard
