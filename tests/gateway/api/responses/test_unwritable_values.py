"""Through the application: bodies that can be read and not be written again are refused before they cost anything."""

from typing import Any

import pytest

from tests.asgi import Answer, Client
from tests.gateway.api.relay.test_relay_answer import NAME
from tests.gateway.api.responses.client import CONVERSATIONS, PATH, relayed

DEEP = '{"a":' * 300 + "1" + "}" * 300
LONG = '{"a":' + "9" * 30 + "}"


def with_tool(value: str, member: str = "parameters") -> str:
    return f'"tools": [{{"type": "function", "name": "f", "{member}": {value}}}]'


def with_part(value: str, name: str = "input") -> str:
    part = f'{{"type": "output_text", "text": "a", "annotations": [{value}]}}'
    return f'"{name}": [{{"role": "assistant", "content": [{part}]}}]'


async def post(client: Client, path: str, body: str) -> Answer:
    call = client.call("POST", path)
    call.put(f"{{{body}}}".encode())
    return await call.answer()


@pytest.mark.parametrize("value", [DEEP, LONG], ids=["deep", "long"])
async def test_what_cannot_be_written_is_refused(store_url: str, value: str) -> None:
    model = f'"model": "{NAME}"'
    hello = f'{model}, "input": "Hello!"'

    async def refused(client: Client, path: str, body: str) -> None:
        answer = await post(client, path, body)
        assert (answer.status, answer.error["type"]) == (400, "invalid_request_error"), body[:80]

    async with relayed(store_url) as (client, found):
        conversation: dict[str, Any] = (await client.request("POST", CONVERSATIONS, {})).json
        with_it = f'"conversation": "{conversation["id"]}"'
        for body in (
            f"{hello}, {with_tool(value)}",
            f"{hello}, {with_tool(value, 'output_schema')}",
            f'{hello}, "text": {{"format": {{"type": "json_schema", "name": "n", "schema": {value}}}}}',
            f'{hello}, "text": {{"format": {{"type": "text", "schema": {value}}}}}',
            f"{model}, {with_part(value)}",
            f'{model}, {with_part(value)}, {with_it}, "store": false',
            f'{hello}, "background": true, {with_tool(value)}',
        ):
            await refused(client, PATH, body)
        await refused(client, f"{PATH}/input_tokens", f"{hello}, {with_tool(value)}")
        await refused(client, CONVERSATIONS, with_part(value, "items"))
        await refused(client, f"{CONVERSATIONS}/{conversation['id']}/items", with_part(value, "items"))
        assert not found.heard


async def test_what_is_just_short_enough_can_be_told_again(store_url: str) -> None:
    async with relayed(store_url) as (client, _):
        for depth in range(236, 256):
            value = '{"a":' * depth + "1" + "}" * depth
            answer = await post(client, CONVERSATIONS, with_part(value, "items"))
            assert answer.status in (200, 400)
            if answer.status == 200:
                listed = await client.request("GET", f"{CONVERSATIONS}/{answer.json['id']}/items")
                assert listed.status == 200
            answer = await post(client, PATH, f'"model": "{NAME}", {with_part(value)}, {with_tool(value)}')
            assert answer.status in (200, 400)
            if answer.status == 200:
                listed = await client.request("GET", f"{PATH}/{answer.json['id']}/input_items")
                assert listed.status == 200
