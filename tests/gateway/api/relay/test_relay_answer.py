"""Through the application: answers of upstreams that speak the API themselves, passed on as they come."""

import asyncio
from typing import Any

import orjson
import pytest

from tests.asgi import CHAT, HELLO, gateway_of
from tests.gateway.api.accounts import used
from tests.harness import MODEL, engine_of, serving
from tests.loops import until
from tests.upstreams import ANSWER, END, EVENT, STREAM, Caller, Heard, Upstream, chunk, plain, streamed, upstream

NAME = "hosted"


def hosted(*upstreams: Upstream, name: str = NAME, **fields: Any) -> dict[str, Any]:
    pool = {"name": "up", "engine": "openai", "replicas": [one.url for one in upstreams]}
    return {"name": name, "context": 4096, "pools": [pool]} | fields


EVENTS = (EVENT % b"Hel", EVENT % b"lo")


def shown(data: bytes) -> bytes:
    return data.replace(b'"theirs"', b'"hosted"')


async def test_a_stream_goes_on_byte_by_byte_but_for_the_model_and_what_was_not_asked_for(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = streamed(*EVENTS, END)
        answer = await client.chat(model=NAME, stream=True)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        whole = shown(b"".join((*EVENTS, END)))
        usage = next(event for event in whole.split(b"\n\n") if b'"usage"' in event) + b"\n\n"
        assert answer.body == whole.replace(usage, b"")
        assert b"[DONE]" in answer.body
        sent = orjson.loads(found.heard[0].body)
        assert sent["stream_options"] == {"include_usage": True}
        assert found.heard[0].target == "/v1/chat/completions"
        assert "authorization" not in found.heard[0].headers
        asked = await client.chat(model=NAME, stream=True, stream_options={"include_usage": True})
        assert asked.body == whole


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_upstream_counts_is_what_the_tenant_pays(store_url: str, stream: bool) -> None:
    tenant = {"name": "payer", "limits": {"tpm": 100_000}}
    model: dict[str, Any] = {"price": {"input": 1000.0, "cached_input": 500.0, "output": 2000.0}}
    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found, **model)], tenant=tenant) as client,
    ):
        found.behaves = streamed(*EVENTS, END) if stream else plain(ANSWER)
        answer = await client.chat(model=NAME, stream=stream, tools=[{"type": "function", "function": {"name": "f"}}])
        assert answer.status == 200
        assert stream or answer.body == shown(ANSWER)
        assert "tools" in orjson.loads(found.heard[0].body)
        row = await used(client, "payer")
        assert (row.requests, row.input_tokens, row.cached_tokens, row.output_tokens) == (1, 7, 5, 3)
        assert row.cost_usd == pytest.approx((2 * 1.0 + 5 * 0.5 + 3 * 2.0) / 1e3)


async def test_of_a_stream_that_its_client_left_what_was_seen_is_paid(store_url: str) -> None:
    async def endless(caller: Caller, heard: Heard) -> None:
        await caller.say(STREAM + b"".join(chunk(event) for event in EVENTS * 4))
        await caller.gone()

    tenant = {"name": "leaver", "limits": {"tpm": 100_000}}
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)], tenant=tenant) as client:
        found.behaves = endless
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO, "stream": True}))
        await until(lambda: call.body.count(b"data:") == 8)
        call.disconnect()
        assert call.task is not None
        await call.task
        row = await used(client, "leaver")
        assert (row.requests, row.output_tokens) == (1, 8)
        assert row.input_tokens > 0


async def test_one_that_fails_before_its_first_byte_costs_the_client_nothing(store_url: str) -> None:
    async with upstream() as broken, upstream() as sound:
        broken.behaves = plain(b"<html>oops</html>", kind="text/html")
        sound.behaves = streamed(*EVENTS, END)
        async with gateway_of(store_url, more_models=[hosted(broken, sound)]) as client:
            await client.proven(2, NAME)
            for _ in range(6):
                answer = await client.chat(model=NAME, stream=True)
                assert answer.status == 200, answer.body
                assert answer.body.endswith(b"data: [DONE]\n\n")
        assert broken.heard
        assert len(sound.heard) == 6


async def test_one_that_breaks_off_ends_the_stream_with_an_error(store_url: str) -> None:
    async def cut(caller: Caller, heard: Heard) -> None:
        await caller.say(STREAM + chunk(EVENTS[0]))

    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = cut
        answer = await client.chat(model=NAME, stream=True)
        assert answer.status == 200
        first, error = answer.events
        assert first["choices"][0]["delta"]["content"] == "Hel"
        assert error["error"]["code"] in ("replica_failed", "replica_unavailable")
        assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_takes_its_upstream_request_with_it(store_url: str, stream: bool) -> None:
    gone = asyncio.Event()

    async def endless(caller: Caller, heard: Heard) -> None:
        if stream:
            await caller.say(STREAM + chunk(EVENTS[0]))
        await caller.gone()
        gone.set()

    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = endless
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO, "stream": stream}))
        await until(lambda: bool(found.heard) and (not stream or len(call.sent) > 1))
        call.disconnect()
        await gone.wait()
        assert call.task is not None
        await call.task
        fleet = client.gateway.models[NAME].fleet
        assert [connection.in_flight for connection in fleet._connections.values()] == [0]


async def test_a_large_answer_comes_in_parts(store_url: str) -> None:
    text = b"x" * (3 << 20)
    body = b'{"id":"c","model":"theirs","choices":[{"index":0,"message":{"role":"assistant","content":"%b"},' % text
    body += b'"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}'

    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = plain(body)
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO}))
        answer = await call.answer()
        assert answer.status == 200
        assert answer.json["choices"][0]["message"]["content"] == text.decode()
        assert answer.json["model"] == NAME
        assert max(len(message.get("body", b"")) for message in call.sent) < 2 << 20


async def test_half_a_large_answer_is_never_taken_for_a_whole_one(store_url: str) -> None:
    async def half(caller: Caller, heard: Heard) -> None:
        whole = plain(b'{"model":"theirs","content":"' + b"x" * (3 << 20) + b'"}')
        await caller.say(whole[: 2 << 20])

    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = half
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO}))
        assert call.task is not None
        await call.task
        if call.sent[0]["status"] == 200:
            with pytest.raises(orjson.JSONDecodeError):
                orjson.loads(call.body)
        else:
            assert call.sent[0]["status"] == 502


async def test_an_upstreams_limit_reaches_the_client_when_there_is_nobody_else(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = plain(b'{"error":{"message":"slow down"}}', "429 Too Many Requests", retry_after="7")
        answer = await client.chat(model=NAME)
        assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")
        assert 0 < int(answer.headers["retry-after"]) <= 7
        again = await client.chat(model=NAME)
        assert (again.status, again.error["code"]) == (429, "upstream_rate_limited")
        assert 5 <= int(again.headers["retry-after"]) <= 7
        assert len(found.heard) == 1


async def test_an_explained_request_and_a_dry_run_of_an_upstream(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)], explain=True) as client:
        key = (b"authorization", b"Bearer " + client.key.encode())
        body = {"model": NAME, "messages": HELLO}
        dry = await client.request("POST", CHAT, body, [key, (b"x-penstock-explain", b"dry-run")])
        assert dry.status == 200
        assert dry.json["replica"] == "up/0"
        assert not found.heard
        told = await client.request("POST", CHAT, body, [key, (b"x-penstock-explain", b"1")])
        assert "up/0" in told.headers["x-penstock-route"]


async def test_an_adapter_is_a_model_of_its_name_there(store_url: str) -> None:
    async with upstream() as found:
        model = hosted(found, adapters=[{"name": "law"}, {"name": "art", "pools": ["elsewhere"]}])
        model["pools"][0]["upstream"] = {"lora": True}
        async with gateway_of(store_url, more_models=[model]) as client:
            answer = await client.chat(model=f"{NAME}:law")
            assert (answer.status, answer.json["model"]) == (200, f"{NAME}:law")
            assert orjson.loads(found.heard[0].body)["model"] == "law"
            assert (await client.chat(model=f"{NAME}:art")).error["code"] == "unsupported_parameter"


async def test_pools_of_two_kinds_serve_one_model(store_url: str) -> None:
    async with upstream() as found, serving(engine_of()) as (_, address):
        found.behaves = plain(ANSWER)
        pools = [
            {"name": "own", "shape": {"tp": 2}, "engine": "simulated", "replicas": [f"grpc://{address}"]},
            {"name": "up", "engine": "openai", "replicas": [found.url]},
        ]
        both = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 2000, "pools": pools}
        both["routing"] = {"policy": "round_robin"}
        async with gateway_of(store_url, more_models=[both]) as client:
            await client.proven(2)
            for _ in range(8):
                answer = await client.chat(max_tokens=3)
                assert answer.status == 200
            assert len(found.heard) == 4
            for _ in range(4):
                assert (await client.chat(tools=[{"type": "custom", "custom": {"name": "f"}}])).status == 200
            assert len(found.heard) == 8
            # It breaks now, and its requests go to the other pool, in tokens.
            found.behaves = plain(b"oops", "500 Internal Server Error", kind="text/plain")
            for _ in range(4):
                answer = await client.chat(max_tokens=3)
                assert (answer.status, answer.json["usage"]["completion_tokens"]) == (200, 3)
            refused = await client.chat(tools=[{"type": "custom", "custom": {"name": "f"}}])
            assert refused.status >= 500
