"""A client of the Responses API in the tests, and upstreams that answer it."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson

from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from tests.asgi import Answer, Client, gateway_of
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.gateway.api.responses.shapes import events_in
from tests.upstreams import Caller, Heard, Upstream, plain, streamed, upstream

PATH = "/v1/responses"
CONVERSATIONS = "/v1/conversations"
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}}


def chat_of(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
    return {"id": "c", "object": "chat.completion", "model": "theirs", "choices": [choice], "usage": usage}


def chunks_of(chat: dict[str, Any]) -> list[bytes]:
    """The same as a stream."""
    choice = chat["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(delta["tool_calls"])]
    parts: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {"choices": [], "usage": chat["usage"]},
    ]
    return [b"data: " + orjson.dumps(part) + b"\n\n" for part in parts] + [b"data: [DONE]\n\n"]


def answering(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Caller, Heard], Any]:
    """An upstream's behaviour: `reply` makes a chat's answer of its body."""

    async def behave(caller: Caller, heard: Heard) -> bool:
        body = orjson.loads(heard.body)
        chat = reply(body)
        await caller.say(streamed(*chunks_of(chat)) if body.get("stream") else plain(orjson.dumps(chat)))
        return True

    return behave


def echo(body: dict[str, Any]) -> dict[str, Any]:
    """Says what it was told last."""
    return chat_of({"content": f"You said: {body['messages'][-1]['content']}"})


def told(found: Upstream, at: int = -1) -> list[dict[str, Any]]:
    """The messages that an upstream was sent."""
    messages: list[dict[str, Any]] = orjson.loads(found.heard[at].body)["messages"]
    return messages


@contextlib.asynccontextmanager
async def relayed(
    store_url: str, reply: Callable[[dict[str, Any]], dict[str, Any]] = echo, **sections: Any
) -> AsyncIterator[tuple[Client, Upstream]]:
    """A gateway before an upstream that answers so."""
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)], **sections) as client:
        found.behaves = answering(reply)
        yield client, found


async def create(client: Client, **fields: Any) -> Answer:
    return await client.request("POST", PATH, {"model": NAME, "input": "Hello!"} | fields)


async def created(client: Client, **fields: Any) -> dict[str, Any]:
    """A response that there must be."""
    answer = await create(client, **fields)
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json
    return found


async def events_of(client: Client, **fields: Any) -> list[dict[str, Any]]:
    """The events of a streamed response."""
    answer = await create(client, stream=True, **fields)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.json
    return events_in(answer.body)


async def get(client: Client, path: str, status: int = 200) -> Any:
    answer = await client.request("GET", path)
    assert answer.status == status, answer.json
    return answer.error if status != 200 else answer.json


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


async def other_tenants(client: Client, store_url: str, name: str) -> Client:
    """A client of the same gateway with a key of another tenant."""
    store = Store(store_url, timeout=10.0)
    _, key = await KeyStore(store).create(KeyRequest(name="other", tenant=name))
    await store.aclose()
    return Client(client._app, client.gateway, key)
