"""Requests of a proxy that find no endpoint, that are none, or whose streams break."""

import json
from pathlib import Path

import grpc
import pytest

from gateway.endpoint_picker import exchange
from protos import ext_proc_pb2 as pb
from tests.gateway.endpoint_picker.pickers import Picker, picker, vllm
from tests.loops import until
from tests.proxies import headers
from tests.upstreams import plain

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello there"}]}).encode()


@pytest.mark.parametrize("name", ["request_body_mode", "response_body_mode"])
async def test_a_mode_in_which_the_answer_could_not_be_held_back_is_refused_by_name(state_dir: Path, name: str) -> None:
    config = pb.ProtocolConfiguration(
        request_body_mode=pb.FULL_DUPLEX_STREAMED, response_body_mode=pb.FULL_DUPLEX_STREAMED
    )
    setattr(config, name, pb.BUFFERED)
    async with picker(state_dir, 1) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({}), protocol_config=config)
        code, details = await stream.failed()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert details == f"processing_mode.{name} must be FULL_DUPLEX_STREAMED or NONE, not BUFFERED"
        running.nothing_is_left()


@pytest.mark.parametrize("subset", [[], "", "  , ", 7, [7], ["127.0.0.1:1"], "not an address"])
async def test_a_subset_that_cannot_be_used_is_not_widened(state_dir: Path, subset: object) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(BODY, subset=subset)
        refusal = await stream.refused()
        assert refusal.status.code == 503
        assert "code" in json.loads(refusal.body)["error"]
        assert refusal.details == "penstock_epp_no_endpoint"
        await stream.end()
        running.nothing_is_left()


async def test_without_a_ready_endpoint_a_request_is_answered_with_503(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        (only,) = running.upstreams.values()
        only.health = plain(b"", status="503 Service Unavailable")
        only.pages["/v1/models"] = only.health
        # The look comes within some seconds by itself.
        (connection,) = running.model.fleet._connections.values()
        connection._provider.doubt()
        await until(lambda: not running.model.ready)
        stream = running.proxy.stream()
        await stream.request(BODY)
        assert (await stream.refused()).status.code == 503
        await stream.end()
        running.nothing_is_left()


def full(running: Picker) -> None:
    """Let every upstream report that its KV cache is full."""
    for one in running.upstreams.values():
        one.pages["/metrics"] = vllm(running=50, used=1.0)


async def are_full(running: Picker) -> None:
    full(running)
    views = running.model.fleet
    await until(lambda: all(view.load.kv_blocks_used == 10_000 for view in views.candidates()))


async def test_what_finds_no_room_in_time_is_shed_with_429(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.endpoint_picker.picker.WAIT_SECONDS", 0.05)
    async with picker(state_dir) as running:
        await are_full(running)
        stream = running.proxy.stream()
        await stream.request(BODY)
        refusal = await stream.refused()
        assert refusal.status.code == 429
        names = {option.header.key for option in refusal.headers.set_headers}
        assert {"content-type", "retry-after"} <= names
        assert json.loads(refusal.body)["error"]["code"]
        await stream.end()
        running.nothing_is_left()
        assert running.model.queue.admissions[0, "shed"] == 1


async def test_a_request_waits_for_room_and_then_goes(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        await are_full(running)
        stream = running.proxy.stream()
        await stream.request(BODY)
        await until(lambda: running.model.queue.waiting == 1)
        roomy = sorted(running.upstreams)[1]
        running.upstreams[roomy].pages["/metrics"] = vllm()
        assert (await stream.picked())[0] == roomy
        await stream.passed_on()
        await stream.end()
        running.nothing_is_left()


async def test_a_client_that_leaves_while_it_waits_leaves_nothing(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        await are_full(running)
        stream = running.proxy.stream()
        await stream.request(BODY)
        await until(lambda: running.model.queue.waiting == 1)
        stream.call.cancel()
        await until(lambda: running.process.metrics.streams == 0)
        running.nothing_is_left()


@pytest.mark.parametrize("when", ["headers", "body", "decision", "answer"])
async def test_a_stream_that_breaks_leaves_nothing(state_dir: Path, when: str) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({}))
        if when != "headers":
            await stream.send(request_body=pb.HttpBody(body=BODY, end_of_stream=when != "body"))
        if when in ("decision", "answer"):
            await stream.picked()
        if when == "answer":
            await stream.passed_on()
            await stream.send(response_headers=headers({":status": "200"}))
            await stream.receive()
            assert running.in_flight()
        await until(lambda: running.process.metrics.streams == 1)
        stream.call.cancel()
        await until(lambda: running.process.metrics.streams == 0)
        running.nothing_is_left()


async def test_a_proxy_that_says_nothing_more_leaves_nothing(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        await stream.picked()
        await stream.passed_on()
        await stream.end()
        running.nothing_is_left()


async def test_a_body_beyond_the_bound_is_answered_with_413(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_BODY_BYTES", 1000)
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({}))
        await stream.send(request_body=pb.HttpBody(body=b" " * 999))
        await stream.send(request_body=pb.HttpBody(body=b" " * 2))
        assert (await stream.refused()).status.code == 413
        await stream.end()
        running.nothing_is_left()


@pytest.mark.parametrize(
    "body", [b"", b"no JSON", b"[1]", b"\xff\xfe", b'{"model": 7, "messages": "?"}', b"{" * 100_000]
)
async def test_what_is_no_request_is_the_endpoints_to_refuse(state_dir: Path, body: bytes) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(body)
        assert len(await stream.picked()) == 2
        assert await stream.passed_on() == body
        await stream.respond(b'{"error":{}}', status=400)
        await stream.end()
        running.nothing_is_left()


async def test_all_bodies_together_are_bounded(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_HELD_BYTES", 1500)
    async with picker(state_dir) as running:
        first, second = running.proxy.stream(), running.proxy.stream()
        for stream in (first, second):
            await stream.send(request_headers=headers({}))
        await first.send(request_body=pb.HttpBody(body=b" " * 1000))
        await until(lambda: running.process.held.bytes == 1000)
        await second.send(request_body=pb.HttpBody(body=b" " * 1000))
        assert (await second.refused()).status.code == 429
        await second.end()
        await first.send(request_body=pb.HttpBody(body=b" ", end_of_stream=True))
        await first.picked()
        assert await first.passed_on() == b" " * 1001
        await first.end()
        running.nothing_is_left()


async def test_a_model_that_is_not_there_is_said_so(state_dir: Path) -> None:
    more = {
        "name": "n",
        "context": 100,
        "pools": [{"name": "p", "engine": "openai", "replicas": ["http://127.0.0.2:9"]}],
    }
    async with picker(state_dir, 1, more_models=[more]) as running:
        stream = running.proxy.stream()
        await stream.request(BODY.replace(b'"m"', b'"who?"'))
        refusal = await stream.refused()
        assert refusal.status.code == 404
        assert json.loads(refusal.body)["error"]["param"] == "model"
        await stream.end()
        # A request that names none goes to the first model that has an endpoint.
        stream = running.proxy.stream()
        await stream.request(b"")
        assert await stream.picked() == [*running.upstreams]
        await stream.passed_on()
        await stream.end()
        running.nothing_is_left()


async def test_an_endpoint_that_fails_again_and_again_gets_no_more(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        bad = ""
        for _ in range(12):
            stream = running.proxy.stream()
            await stream.request(BODY)
            place = (await stream.picked())[0]
            bad = bad or place
            await stream.passed_on()
            await stream.respond(b"{}", status=500 if place == bad else 200, served=place)
            await stream.end()
        last = running.proxy.stream()
        await last.request(BODY)
        assert await last.picked() == [endpoint for endpoint in running.upstreams if endpoint != bad]
        await last.passed_on()
        await last.end()
        running.nothing_is_left()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({}, "a ProcessingRequest without any of request_headers, request_body and the others"),
        ({"request_body": pb.HttpBody(body=b"?")}, "a body before the headers"),
        ({"request_trailers": pb.HttpTrailers()}, "a request without headers"),
        (
            {"request_headers": headers({}), "observability_mode": True},
            "observability_mode must be off: the picker's answers are needed",
        ),
    ],
)
async def test_what_no_proxy_may_send_is_refused(state_dir: Path, message: dict[str, object], said: str) -> None:
    async with picker(state_dir, 1) as running:
        stream = running.proxy.stream()
        await stream.send(**message)
        assert await stream.failed() == (grpc.StatusCode.INVALID_ARGUMENT, said)
        running.nothing_is_left()


async def test_a_stream_is_one_request(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({}))
        await stream.send(request_headers=headers({}))
        assert await stream.failed() == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "the headers of a second request in one stream",
        )
        running.nothing_is_left()
