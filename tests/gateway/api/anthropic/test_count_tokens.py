"""Through the application: how many tokens a prompt has."""

from typing import Any

import orjson
import pytest

from tests.asgi import gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.anthropic.messages_client import COUNT, ask, error_of
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.gateway.api.test_filters import SAFETY
from tests.harness import engine_of
from tests.upstreams import plain, upstream

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {}}}}


@pytest.mark.parametrize(
    "fields",
    [{}, {"system": "Be kind."}, {"messages": [{"role": "user", "content": "word " * 5000}]}],
    ids=["plain", "system", "long"],
)
async def test_the_count_is_what_a_message_is_charged_for(store_url: str, fields: dict[str, Any]) -> None:
    tenant = {"name": "acme"}
    async with gateway_of(store_url, engine_of(), tenant=tenant, model_fields={"context": 9000}) as client:
        counted = await ask(client, COUNT, **fields)
        assert counted.status == 200
        assert "request-id" in counted.headers
        booked = await used(client)
        assert (booked.requests, booked.input_tokens) == (1, 0)
        usage = (await ask(client, max_tokens=1, **fields)).json["usage"]
        assert counted.json == {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]}


async def test_an_upstream_counts_where_it_can(store_url: str) -> None:
    async with upstream() as one, upstream() as other:
        can, cannot = hosted(one), hosted(other, name="other")
        can["pools"][0]["upstream"] = {"endpoints": ["tokenize"]}
        async with gateway_of(store_url, more_models=[can, cannot]) as client:
            one.behaves = plain(b'{"count":7,"max_model_len":99,"tokens":[1,2,3,4,5,6,7]}')
            fields: dict[str, Any] = {"system": "Be kind.", "tools": [TOOL], "tool_choice": {"type": "auto"}}
            assert (await ask(client, COUNT, model=NAME, **fields)).json == {"input_tokens": 7}
            (heard,) = one.heard
            assert heard.target == "/tokenize"
            sent = orjson.loads(heard.body)
            assert set(sent) == {"model", "messages", "tools"}
            assert [message["role"] for message in sent["messages"]] == ["system", "user"]
            one.behaves = plain(b'{"count":"many"}')
            answer = await ask(client, COUNT, model=NAME)
            assert (answer.status, error_of(answer)["type"]) == (502, "api_error")
            answer = await ask(client, COUNT, model="other")
            assert (answer.status, error_of(answer)["type"]) == (400, "invalid_request_error")
            assert "'other'" in error_of(answer)["message"]
            assert not other.heard


async def test_an_upstream_is_not_sent_what_would_have_been_filtered(store_url: str) -> None:
    async with upstream() as found:
        model = hosted(found)
        model["pools"][0]["upstream"] = {"endpoints": ["tokenize"]}
        async with gateway_of(store_url, more_models=[model], safety=SAFETY) as client:
            answer = await ask(client, COUNT, model=NAME)
            assert answer.status == 400
            assert "are filtered" in error_of(answer)["message"]
            assert not found.heard


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"max_tokens": 5}, 400, "max_tokens: Extra inputs are not permitted."),
        ({"model": "none"}, 404, "The model 'none' does not exist"),
        ({"messages": []}, 400, "messages: Expected `array` of length >= 1."),
    ],
)
async def test_what_is_refused(store_url: str, fields: dict[str, Any], status: int, message: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await ask(client, COUNT, **fields)
        assert answer.status == status
        assert error_of(answer)["message"].startswith(message)
