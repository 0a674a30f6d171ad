"""Through the application: conversations, and responses that go on with them."""

from typing import Any

import pytest
from openai._models import validate_type
from openai.types.conversations import Conversation, ConversationItem

from tests.asgi import Client
from tests.gateway.api.responses.client import (
    CONVERSATIONS,
    PATH,
    create,
    created,
    events_of,
    get,
    other_tenants,
    relayed,
    text_of,
    told,
)


async def begin(client: Client, **fields: Any) -> dict[str, Any]:
    answer = await client.request("POST", CONVERSATIONS, fields)
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json
    validate_type(type_=Conversation, value=found)
    return found


async def items_of(client: Client, conversation: dict[str, Any], query: str = "order=asc") -> list[Any]:
    found: list[Any] = (await get(client, f"{CONVERSATIONS}/{conversation['id']}/items?{query}"))["data"]
    for item in found:
        validate_type(type_=ConversationItem, value=item)  # type: ignore[arg-type]
    return found


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_a_conversation_and_its_items(store_url: str) -> None:
    async with relayed(store_url) as (client, _):
        conversation = await begin(client, metadata={"a": "b"}, items=[user("one")])
        path = f"{CONVERSATIONS}/{conversation['id']}"
        assert await get(client, path) == conversation
        changed = await client.request("POST", path, {"metadata": {"c": "d"}})
        assert changed.json == conversation | {"metadata": {"c": "d"}}
        assert await get(client, path) == changed.json
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc_mine"}
        added = await client.request("POST", f"{path}/items", {"items": [user("two"), call]})
        assert [item["type"] for item in added.json["data"]] == ["message", "function_call"]
        found = await items_of(client, conversation)
        assert found[1:] == added.json["data"]
        assert found[0]["content"] == [{"type": "input_text", "text": "one"}]
        page = await get(client, f"{path}/items?limit=2")
        assert (page["data"], page["has_more"]) == ([found[2], found[1]], True)
        rest = await get(client, f"{path}/items?limit=2&after={page['last_id']}&include[]=reasoning.encrypted_content")
        assert (rest["data"], rest["has_more"]) == ([found[0]], False)
        item = f"{path}/items/{found[1]['id']}"
        assert await get(client, item) == found[1]
        left = await client.request("DELETE", item)
        assert left.json == changed.json
        await get(client, item, 404)
        assert len(await items_of(client, conversation)) == 2
        gone = await client.request("DELETE", path)
        assert gone.json == {"id": conversation["id"], "object": "conversation.deleted", "deleted": True}
        error = await get(client, path, 404)
        assert error["code"] == "conversation_not_found"
        assert (await client.request("POST", CONVERSATIONS)).status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_go_on_with_a_conversation(store_url: str, stream: bool) -> None:
    async def turn(client: Client, **fields: Any) -> dict[str, Any]:
        if not stream:
            return await created(client, **fields)
        found: dict[str, Any] = (await events_of(client, **fields))[-1]["response"]
        return found

    async with relayed(store_url) as (client, found):
        conversation = await begin(client, items=[user("zero")])
        first = await turn(client, conversation=conversation["id"], input="one")
        assert first["conversation"] == {"id": conversation["id"]}
        second = await turn(client, conversation={"id": conversation["id"]}, input=[user("two")], store=False)
        said = ["zero", "one", "You said: one", "two", "You said: two"]
        assert [message["content"] for message in told(found)] == said[:-1]
        items = await items_of(client, conversation)
        assert [item["content"][0]["text"] for item in items] == said
        assert items[2] == first["output"][0]
        assert len({item["id"] for item in items}) == 5
        # What goes on from a response in it begins where that one did.
        third = await turn(client, previous_response_id=first["id"], input="else")
        assert [message["content"] for message in told(found)] == [*said[:3], "else"]
        assert text_of(third) == "You said: else"
        await get(client, f"{PATH}/{second['id']}", 404)
        await client.request("DELETE", f"{CONVERSATIONS}/{conversation['id']}")
        answer = await create(client, conversation=conversation["id"])
        assert (answer.status, answer.error["code"]) == (404, "conversation_not_found")


async def test_what_is_no_item_is_refused_by_its_place(store_url: str) -> None:
    async with relayed(store_url, responses={"max_items": 20}) as (client, _):
        conversation = await begin(client)
        path = f"{CONVERSATIONS}/{conversation['id']}/items"
        for items, param in (
            ([user("x"), {"type": "odd"}], "items[1].type"),
            ([{"role": "user"}], "items[0].content"),
            ([{"role": "user", "content": [{"type": "input_text"}]}], "items[0].content[0].text"),
            ([{"type": "item_reference", "id": "msg_1"}], "items[0]"),
            ([user("x")] * 21, "items"),
        ):
            for answer in (
                await client.request("POST", path, {"items": items}),
                await client.request("POST", CONVERSATIONS, {"items": items}),
            ):
                assert (answer.status, answer.error["param"]) == (400, param)
        assert await items_of(client, conversation) == []
        await client.request("POST", path, {"items": [user("x")] * 20})
        answer = await client.request("POST", path, {"items": [user("x")]})
        assert (answer.status, answer.error["param"]) == (400, "items")
        answer = await create(client, conversation=conversation["id"])
        assert (answer.status, answer.error["param"]) == (400, "conversation")
        for query, param in (("limit=0", "limit"), ("limit=101", "limit"), ("order=up", "order"), ("odd=1", "odd")):
            answer = await client.request("GET", f"{path}?{query}")
            assert (answer.status, answer.error["param"]) == (400, param)
        for body in ({"metadata": {"a": 1}}, {"metadata": {"a": "x" * 513}}, {}):
            answer = await client.request("POST", f"{CONVERSATIONS}/{conversation['id']}", body)
            assert (answer.status, answer.error["param"]) == (400, "metadata")


async def test_another_tenants_conversation_is_not_there(store_url: str) -> None:
    async with relayed(store_url, tenant={"name": "acme"}) as (client, _):
        conversation = await begin(client, items=[user("one")])
        (item,) = await items_of(client, conversation)
        other = await other_tenants(client, store_url, "default")
        path = f"{CONVERSATIONS}/{conversation['id']}"
        for method, url, body in (
            ("GET", path, b""),
            ("POST", path, {"metadata": {}}),
            ("DELETE", path, b""),
            ("GET", f"{path}/items", b""),
            ("POST", f"{path}/items", {"items": [user("x")]}),
            ("GET", f"{path}/items/{item['id']}", b""),
            ("DELETE", f"{path}/items/{item['id']}", b""),
            ("POST", PATH, {"model": "hosted", "input": "x", "conversation": conversation["id"]}),
            ("GET", f"{CONVERSATIONS}/index", b""),
        ):
            answer = await other.request(method, url, body)
            assert (answer.status, answer.error["code"]) == (404, "conversation_not_found"), url
        assert await items_of(client, conversation) == [item]
