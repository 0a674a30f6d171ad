"""Through the application: responses that nobody waits for."""

import asyncio
from typing import Any

import orjson
import pytest

from gateway.api.responses import background_responses as background
from gateway.api.responses import follow
from gateway.api.responses.responses_renderer import ResponseRenderer
from gateway.jobs.responses import response_store as store_module
from tests.asgi import Client, gateway_of
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.gateway.api.responses.client import (
    CONVERSATIONS,
    PATH,
    answering,
    create,
    created,
    echo,
    events_of,
    get,
    other_tenants,
    relayed,
    text_of,
    told,
)
from tests.gateway.api.responses.shapes import checked, events_in, types_of
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until
from tests.upstreams import EVENT, STREAM, Caller, Heard, chunk, plain, upstream

SLOW: dict[str, Any] = {"instant": False, "pace_seconds": 0.01, "output_tokens": 1500}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "WRITE_SECONDS", 0.02)
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.02)


async def goes_on(client: Client, response: dict[str, Any]) -> None:
    """Return once a worker has told of the response."""
    while True:
        if (await get(client, f"{PATH}/{response['id']}"))["status"] != "queued":
            return
        await asyncio.sleep(0.02)


async def ended(client: Client, response: dict[str, Any]) -> dict[str, Any]:
    """The response once it is at its end."""
    while True:
        found: dict[str, Any] = await get(client, f"{PATH}/{response['id']}")
        if found["status"] not in ("queued", "in_progress"):
            return checked(found)
        await asyncio.sleep(0.02)


async def test_a_response_is_made_while_nobody_waits(store_url: str) -> None:
    async with relayed(store_url) as (client, found):
        queued = checked(await created(client, background=True, input="one"))
        assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
        done = await ended(client, queued)
        assert (done["status"], text_of(done)) == ("completed", "You said: one")
        assert done["usage"]["output_tokens"] == 3
        # It is one turn like any other.
        after = await created(client, previous_response_id=done["id"], input="two")
        assert [message["content"] for message in told(found)] == ["one", "You said: one", "two"]
        cancelled = await client.request("POST", f"{PATH}/{done['id']}/cancel")
        assert cancelled.json == done
        answer = await client.request("POST", f"{PATH}/{after['id']}/cancel")
        assert (answer.status, answer.error["message"]) == (400, "Cannot cancel a synchronous response.")


async def test_its_events_are_kept_and_can_be_had_from_any_place(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus(), **SLOW)) as client:
        fields: dict[str, Any] = {"model": MODEL, "background": True, "max_output_tokens": 30}
        events = await events_of(client, **fields)
        assert types_of(events)[:4] == ["created", "queued", "in_progress", "output_item.added"]
        assert types_of(events)[-1] == "incomplete"
        final = events[-1]["response"]
        path = f"{PATH}/{final['id']}?stream=true"
        again = await client.request("GET", path)
        assert events_in(again.body) == events
        rest = await client.request("GET", f"{path}&starting_after=4")
        assert events_in(rest.body, first=5) == events[5:]
        assert await ended(client, final) == final
        for query, param in (
            ("starting_after=x", "starting_after"),
            ("starting_after=-1", "starting_after"),
            ("stream=1", "stream"),
        ):
            answer = await client.request("GET", f"{path}&{query}")
            assert (answer.status, answer.error["param"]) == (400, param)


async def test_only_a_background_responses_events_can_be_had(store_url: str) -> None:
    async with relayed(store_url) as (client, _):
        response = await created(client)
        answer = await client.request("GET", f"{PATH}/{response['id']}?stream=true")
        assert (answer.status, answer.error["param"]) == (400, "stream")
        await get(client, f"{PATH}/resp_{'0' * 24}?stream=true", 404)
        answer = await create(client, background=True, store=False)
        assert (answer.status, answer.error["param"]) == (400, "store")


async def test_a_cancelled_response_ends_at_once(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus(), **SLOW)) as client:
        fields: dict[str, Any] = {"model": MODEL, "background": True, "max_output_tokens": 1000}
        response = await created(client, **fields)
        path = f"{PATH}/{response['id']}"
        await goes_on(client, response)
        assert (await get(client, path))["status"] == "in_progress"
        early = await create(client, model=MODEL, previous_response_id=response["id"])
        assert (early.status, early.error["param"]) == (400, "previous_response_id")
        following = asyncio.ensure_future(client.request("GET", f"{path}?stream=true"))
        await until(lambda: client.active == 2)
        answer = await client.request("POST", f"{path}/cancel")
        assert checked(answer.json)["status"] == "cancelled"
        await until(lambda: client.active <= 1)
        stream = events_in((await following).body)
        assert types_of(stream)[-1] not in ("completed", "failed", "incomplete")
        assert await get(client, path) == answer.json
        again = await client.request("POST", f"{path}/cancel")
        assert again.json == answer.json
        # One that is deleted ends too.
        response = await created(client, **fields)
        await until(lambda: client.active == 1)
        assert (await client.request("DELETE", f"{PATH}/{response['id']}")).status == 200
        await until(lambda: client.active == 0)


async def test_what_is_wrong_is_told_at_once_and_what_goes_wrong_later(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        for fields, status in (
            ({"model": "nothing"}, 404),
            ({"tools": [{"type": "function", "name": "a b"}]}, 400),
        ):
            answer = await create(client, background=True, **fields)
            assert answer.status == status
        assert not found.heard
        found.behaves = plain(b'{"error":{"message":"no"}}', "500 Internal Server Error")
        done = await ended(client, await created(client, background=True))
        assert (done["status"], done["error"]["code"]) == ("failed", "server_error")
        stream = await client.request("GET", f"{PATH}/{done['id']}?stream=true")
        events = events_in(stream.body)
        assert types_of(events) == ["created", "queued", "in_progress", "failed"]
        assert events[-1]["response"] == done
        # What failed can still be gone on from.
        assert (await create(client, previous_response_id=done["id"])).status != 400


async def test_what_fails_within_the_gateway_ends_the_stream_where_it_is(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bytes:
        raise RuntimeError

    async with relayed(store_url) as (client, _):
        monkeypatch.setattr(ResponseRenderer, "closing", fail)
        done = await ended(client, await created(client, background=True))
        assert (done["status"], done["error"]["code"]) == ("failed", "server_error")
        stream = await client.request("GET", f"{PATH}/{done['id']}?stream=true")
        events = events_in(stream.body)
        assert types_of(events)[-3:] == ["content_part.done", "output_item.done", "failed"]
        assert events[-1]["response"] == done
        assert text_of(done) == "You said: Hello!"


async def test_the_model_that_has_answered_is_told(store_url: str) -> None:
    async with upstream() as first, upstream() as second:
        models = [hosted(first) | {"fallbacks": {"models": ["other"]}}, hosted(second) | {"name": "other"}]
        async with gateway_of(store_url, more_models=models) as client:
            first.behaves = plain(b'{"error":{"message":"no"}}', "500 Internal Server Error")
            second.behaves = answering(echo)
            queued = await created(client, background=True)
            assert (queued["model"], (await ended(client, queued))["model"]) == (NAME, "other")


async def test_what_a_dead_worker_left_has_failed(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stuck(caller: Caller, heard: Heard) -> bool:
        await caller.say(STREAM + chunk(EVENT % b"Hel"))
        await caller.gone()
        return False

    async def _silent(*_: Any) -> None:
        return None

    async with relayed(store_url) as (client, found):
        found.behaves = stuck
        progress, kept = client.gateway.services.responses.progress, list[bytes]()

        async def noted(tenant: str, response_id: str, events: bytes) -> str | None:
            ended = await progress(tenant, response_id, events)
            kept.append(events)
            return ended

        monkeypatch.setattr(client.gateway.services.responses, "progress", noted)
        response = await created(client, background=True)
        path = f"{PATH}/{response['id']}"
        await until(lambda: any(b"output_text.delta" in events for events in kept))
        # As if the worker were gone: nothing is told of it any more, and its lease ends soon.
        monkeypatch.setattr(client.gateway.services.responses, "progress", _silent)
        monkeypatch.setattr(store_module, "LEASE_SECONDS", 0.1)
        assert await progress("default", response["id"], b"") is None
        stream = await client.request("GET", f"{path}?stream=true")
        events = events_in(stream.body)
        assert types_of(events)[-2:] == ["output_text.delta", "failed"]
        left = checked(await get(client, path))
        assert (left["status"], left["error"]["code"]) == ("failed", "server_error")
        assert events[-1]["response"] == left
        cancelled = await client.request("POST", f"{path}/cancel")
        assert cancelled.json == left
        monkeypatch.undo()
        # The worker was only slow: it hears that it is too late.
        await until(lambda: client.active == 0)
        assert await get(client, path) == left


async def test_a_worker_that_stops_says_how_its_work_ended(store_url: str) -> None:
    engine = engine_of(corpus=readable_corpus(), **SLOW)
    fields: dict[str, Any] = {"model": MODEL, "background": True}
    async with gateway_of(store_url, engine, drain_seconds=0.3) as client:
        short = await created(client, max_output_tokens=10, **fields)
        long = await created(client, max_output_tokens=1500, **fields)
        await client.gateway.services.background.aclose(3.0)
        done, failed = await ended(client, short), await ended(client, long)
        assert done["status"] == "incomplete"
        assert failed["status"] == "failed"
        assert failed["error"]["message"] == "The gateway is shutting down."
        assert failed["output"]


async def test_there_is_a_bound_on_what_a_worker_does(store_url: str) -> None:
    engine = engine_of(corpus=readable_corpus(), **SLOW)
    async with gateway_of(store_url, engine, responses={"max_background": 1}) as client:
        fields: dict[str, Any] = {"model": MODEL, "background": True, "max_output_tokens": 1000}
        response = await created(client, **fields)
        answer = await create(client, **fields)
        assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
        await client.request("DELETE", f"{PATH}/{response['id']}")
        await until(lambda: not client.gateway.services.background._running)


async def test_a_client_that_stops_following_ends_nothing(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus(), **SLOW)) as client:
        call = client.call("POST", PATH)
        fields = {"model": MODEL, "input": "x", "max_output_tokens": 100, "background": True, "stream": True}
        call.put(orjson.dumps(fields))
        await until(lambda: len(call.sent) > 2)
        call.disconnect()
        assert call.task is not None
        await call.task
        first = orjson.loads(call.sent[1]["body"].split(b"\n")[1].removeprefix(b"data: "))
        assert (await ended(client, first["response"]))["status"] == "incomplete"


async def test_it_adds_to_its_conversation(store_url: str) -> None:
    async with relayed(store_url, tenant={"name": "acme"}) as (client, _):
        conversation = (await client.request("POST", CONVERSATIONS, {})).json
        response = await created(client, background=True, conversation=conversation["id"], model=NAME)
        done = await ended(client, response)
        assert done["conversation"] == {"id": conversation["id"]}
        items = await get(client, f"{CONVERSATIONS}/{conversation['id']}/items?order=asc")
        assert [item["role"] for item in items["data"]] == ["user", "assistant"]
        other = await other_tenants(client, store_url, "default")
        await get(other, f"{PATH}/{response['id']}?stream=true", 404)
