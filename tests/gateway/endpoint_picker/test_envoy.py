"""The picker behind a real Envoy, which balances by what it is told (override_host)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.envoys import SUBSET_HEADER, envoy
from tests.gateway.endpoint_picker.pickers import Picker, picker, vllm
from tests.loops import until
from tests.ports import free_port
from tests.upstreams import ANSWER, END, EVENT, LAST, STREAM, Caller, Heard, chunk, plain, streamed

pytestmark = pytest.mark.slow

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}
PATH = "/v1/chat/completions"


@asynccontextmanager
async def site(
    folder: Path, endpoints: int = 2, *, fails_open: bool = False
) -> AsyncIterator[tuple[Picker, httpx.AsyncClient]]:
    """A picker, an Envoy that asks it, and a client of that."""
    async with (
        picker(folder, endpoints) as running,
        envoy(folder, running.config.epp.port, running.upstreams, fails_open=fails_open) as url,
        httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client,
    ):
        yield running, client


def served(running: Picker) -> list[str]:
    """The endpoints that were sent anything."""
    return sorted(address for address, upstream in running.upstreams.items() if upstream.heard)


async def test_requests_go_where_the_picker_says_and_come_back_whole(state_dir: Path) -> None:
    async with site(state_dir) as (running, client):
        answer = await client.post(PATH, json=CHAT)
        assert (answer.status_code, answer.content) == (200, ANSWER)
        (place,) = served(running)
        (heard,) = running.upstreams[place].heard
        assert json.loads(heard.body) == CHAT
        assert heard.headers["x-gateway-destination-endpoint"].split(",")[0] == place
        assert (await client.get("/v1/models")).status_code == 200
        await until(lambda: running.process.metrics.streams == 0)
        running.nothing_is_left()


async def test_a_long_body_and_a_stream_pass(state_dir: Path) -> None:
    long = {**CHAT, "messages": [{"role": "user", "content": "a long story " * 200_000}]}
    async with site(state_dir) as (running, client):
        for upstream in running.upstreams.values():
            upstream.behaves = streamed(*(EVENT % b"x" for _ in range(200)), END)
        answer = await client.post(PATH, json=long)
        assert answer.content.count(b"data: ") == 203
        (place,) = served(running)
        assert json.loads(running.upstreams[place].heard[0].body) == long
        await until(lambda: running.process.metrics.streams == 0)
        running.nothing_is_left()


async def test_a_client_cannot_choose_its_endpoint(state_dir: Path) -> None:
    async with site(state_dir) as (running, client):
        answer = await client.post(PATH, json=CHAT, headers={"x-gateway-destination-endpoint": "127.0.0.1:1"})
        assert answer.status_code == 200
        (place,) = served(running)
        assert running.upstreams[place].heard[0].headers["x-gateway-destination-endpoint"].startswith(place)


async def test_the_subset_of_the_gateway_holds(state_dir: Path) -> None:
    async with site(state_dir, 3) as (running, client):
        one = sorted(running.upstreams)[2]
        for _ in range(4):
            assert (await client.post(PATH, json=CHAT, headers={SUBSET_HEADER: one})).status_code == 200
        assert served(running) == [one]
        answer = await client.post(PATH, json=CHAT, headers={SUBSET_HEADER: "127.0.0.1:1"})
        assert answer.status_code == 503
        assert answer.json()["error"]["message"]


async def test_a_body_that_is_too_long_is_answered_with_413(state_dir: Path) -> None:
    async with site(state_dir) as (running, client):
        answer = await client.post(PATH, content=b" " * (11 << 20))
        assert answer.status_code == 413
        assert served(running) == []
        await until(lambda: running.process.metrics.streams == 0)


async def test_no_room_is_429(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.endpoint_picker.picker.WAIT_SECONDS", 0.05)
    async with site(state_dir) as (running, client):
        for upstream in running.upstreams.values():
            upstream.pages["/metrics"] = vllm(running=50, used=1.0)
        await until(lambda: all(view.load.kv_blocks_used == 10_000 for view in running.model.fleet.candidates()))
        answer = await client.post(PATH, json=CHAT)
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1


async def test_a_retry_goes_to_the_next_endpoint_and_counts_there(state_dir: Path) -> None:
    """The first choice takes no connections, which no scrape has told yet."""
    async with picker(state_dir, 2) as running:
        first = "127.0.0.1:1"
        gone = sorted(running.upstreams)[0]
        (id_,) = [id_ for id_, endpoint in running.model.endpoints.items() if endpoint == gone]
        async with (
            envoy(state_dir, running.config.epp.port, [first, *running.upstreams]) as url,
            httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client,
        ):
            running.model.endpoints[id_] = first
            for _ in range(6):
                assert (await client.post(PATH, json=CHAT)).status_code == 200
            await until(lambda: running.process.metrics.streams == 0)
            running.nothing_is_left()


@pytest.mark.parametrize("fails_open", [True, False])
async def test_without_a_picker_it_is_the_gateway_that_decides(state_dir: Path, fails_open: bool) -> None:
    """Where it fails open, a request whose body is on its way to the picker may be lost all the same (Envoy 1.40)."""
    async with (
        picker(state_dir) as running,
        envoy(state_dir, free_port(), running.upstreams, fails_open=fails_open) as url,
        httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client,
    ):
        assert (await client.get("/v1/models")).status_code == (200 if fails_open else 500)
        assert fails_open or (await client.post(PATH, json=CHAT)).status_code == 500


async def test_a_client_that_leaves_an_answer_leaves_nothing(state_dir: Path) -> None:
    async def begins(caller: Caller, heard: Heard) -> object:
        await caller.say(STREAM + chunk(EVENT % b"x"))
        await caller.gone()
        return False

    async with site(state_dir) as (running, client):
        for upstream in running.upstreams.values():
            upstream.behaves = begins
        async with client.stream("POST", PATH, json=CHAT) as answer:
            async for _ in answer.aiter_bytes():
                break
        await until(lambda: running.process.metrics.streams == 0)
        running.nothing_is_left()


async def test_an_answer_under_way_outlives_a_picker_that_ends_in_time(state_dir: Path) -> None:
    let = asyncio.Event()

    async def slowly(caller: Caller, heard: Heard) -> object:
        await caller.say(STREAM + chunk(EVENT % b"x"))
        await let.wait()
        await caller.say(chunk(EVENT % b"y") + chunk(END) + LAST)
        return True

    async with site(state_dir) as (running, client):
        for upstream in running.upstreams.values():
            upstream.behaves = slowly
        async with client.stream("POST", PATH, json=CHAT) as answer:
            parts = answer.aiter_bytes()
            text = await anext(parts)
            stopping = asyncio.create_task(running.process.aclose(30.0))
            await until(lambda: not running.process.metrics.leads)
            let.set()
            async for part in parts:
                text += part
        assert text.endswith(b"data: [DONE]\n\n")
        await stopping
        running.nothing_is_left()


async def test_an_endpoints_error_reaches_the_client(state_dir: Path) -> None:
    async with site(state_dir, 1) as (running, client):
        (upstream,) = running.upstreams.values()
        upstream.behaves = plain(b'{"error":{"message":"no"}}', status="400 Bad Request")
        answer = await client.post(PATH, json=CHAT)
        assert (answer.status_code, answer.json()) == (400, {"error": {"message": "no"}})


async def test_a_request_may_wait_for_room_longer_than_envoy_waits_for_an_answer(state_dir: Path) -> None:
    """The timeout of messages (200 ms by default) is none of full-duplex bodies."""
    async with site(state_dir) as (running, client):
        for upstream in running.upstreams.values():
            upstream.pages["/metrics"] = vllm(running=50, used=1.0)
        await until(lambda: all(view.load.kv_blocks_used == 10_000 for view in running.model.fleet.candidates()))
        asking = asyncio.create_task(client.post(PATH, json=CHAT))
        await until(lambda: running.model.queue.oldest_wait > 0.5)
        for upstream in running.upstreams.values():
            upstream.pages["/metrics"] = vllm()
        assert (await asking).status_code == 200
