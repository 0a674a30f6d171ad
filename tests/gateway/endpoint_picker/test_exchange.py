"""One request of a proxy, from its headers to the end of its answer: behaviours of the published conformance suite
that are a picker's, and what may go wrong.
"""

import asyncio
import json
from pathlib import Path

import pytest

from protos import ext_proc_pb2 as pb
from routing.estimates.decode_length import Origin
from tests.gateway.endpoint_picker.pickers import picker
from tests.proxies import HttpStream, headers, metadata

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello there"}]}).encode()
SERVED = "x-gateway-destination-endpoint-served"
END = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n'


async def answered(stream: HttpStream, served: str = "") -> None:
    """Receive the decision and the body, and give the answer's whole way back."""
    await stream.picked()
    await answered_after(stream, served)


async def answered_after(stream: HttpStream, served: str = "") -> None:
    """Receive the body, and give the answer's whole way back."""
    await stream.passed_on()
    await stream.respond(b'data: {"choices":[{}]}\n\n', END, served=served)
    await stream.end()


async def test_a_request_is_sent_to_an_endpoint_and_its_answer_comes_back(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request([BODY[:10], BODY[10:]], content_type="application/json")
        first, second = await stream.picked()
        assert {first, second} == set(running.upstreams)
        assert await stream.passed_on() == BODY
        assert running.in_flight() == {first: 1}
        await stream.respond(b"data: {}\n\n", b"data: [DONE]\n\n", served=first)
        assert running.in_flight() == {}
        await stream.end()
        running.nothing_is_left()


async def test_the_headers_are_not_answered_before_the_bodys_end(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({":path": "/v1/chat/completions"}))
        await stream.send(request_body=pb.HttpBody(body=BODY))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(reading := asyncio.ensure_future(stream.receive()))
        await stream.send(request_body=pb.HttpBody(body=b"", end_of_stream=True))
        assert (await reading).WhichOneof("response") == "request_headers"
        assert await stream.passed_on() == BODY
        await stream.end()
        running.nothing_is_left()


async def test_a_request_without_a_body_is_sent_at_once(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({":method": "GET", ":path": "/v1/models"}, end=True))
        assert len(await stream.picked()) == 2
        await stream.respond(b'{"data":[]}')
        await stream.end()
        running.nothing_is_left()


async def test_a_proxy_that_sends_no_bodies_gets_an_endpoint_by_load(state_dir: Path) -> None:
    config = pb.ProtocolConfiguration(request_body_mode=pb.NONE, response_body_mode=pb.NONE)
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({":path": "/v1/chat/completions"}), protocol_config=config)
        first, _ = await stream.picked()
        assert running.in_flight() == {first: 1}
        values = headers({":status": "200"})
        await stream.send(response_headers=values)
        await stream.receive()
        await stream.end()
        running.nothing_is_left()


async def test_trailers_end_a_body_too(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.send(request_headers=headers({}))
        await stream.send(request_body=pb.HttpBody(body=BODY))
        await stream.send(request_trailers=pb.HttpTrailers())
        await stream.picked()
        piece = (await stream.receive()).request_body.response.body_mutation.streamed_response
        assert (piece.body, piece.end_of_stream) == (BODY, False)
        assert (await stream.receive()).WhichOneof("response") == "request_trailers"
        await stream.respond(b"data: {}\n\n")
        await stream.end()
        running.nothing_is_left()


async def test_trailers_end_an_answer_too(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        await stream.picked()
        await stream.passed_on()
        await stream.send(response_headers=headers({":status": "200"}))
        await stream.receive()
        await stream.send(response_body=pb.HttpBody(body=END))
        await stream.receive()
        assert running.in_flight()
        await stream.send(response_trailers=pb.HttpTrailers())
        assert (await stream.receive()).WhichOneof("response") == "response_trailers"
        assert running.in_flight() == {}
        await stream.end()
        running.nothing_is_left()


async def test_a_long_body_goes_on_in_pieces_that_a_proxy_has_room_for(state_dir: Path) -> None:
    body = BODY.replace(b"hello", b"hello " * 60_000)
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request([body[:200_000], body[200_000:]])
        await stream.picked()
        assert await stream.passed_on() == body
        await stream.end()
        running.nothing_is_left()


@pytest.mark.parametrize("form", ["list", "string"])
async def test_a_request_goes_to_the_subset_alone(state_dir: Path, form: str) -> None:
    async with picker(state_dir, 3) as running:
        one, other, _ = sorted(running.upstreams)
        for _ in range(6):
            stream = running.proxy.stream()
            subset = [one, other] if form == "list" else f"{one}, {other}"
            await stream.request(BODY, subset=subset)
            assert set(await stream.picked()) == {one, other}
            await stream.passed_on()
            await stream.end()
        running.nothing_is_left()


@pytest.mark.parametrize(
    "policy", ["auto", "concurrency", "least_load", "long_context", "power_of_two", "prefix", "round_robin"]
)
async def test_every_policy_picks_and_has_others_for_a_retry(state_dir: Path, policy: str) -> None:
    async with picker(state_dir, 4, model={"routing": {"policy": policy}}) as running:
        places = []
        for _ in range(4):
            stream = running.proxy.stream()
            await stream.request(BODY)
            endpoints = await stream.picked()
            assert len(set(endpoints)) == len(endpoints) == 3
            places.append(endpoints[0])
            await answered_after(stream)
        assert policy != "round_robin" or len(set(places)) == 4
        running.nothing_is_left()


async def test_a_prompt_goes_where_its_beginning_is_cached(state_dir: Path) -> None:
    """More is known of an answer than that it ended: the endpoint has the prompt now."""
    prompt = "a story of a fleet " * 2000
    async with picker(state_dir, 3) as running:
        places = set()
        for turn in range(6):
            body = json.dumps(
                {"model": "m", "messages": [{"role": "user", "content": prompt + "next " * turn}]}
            ).encode()
            stream = running.proxy.stream()
            await stream.request(body)
            places.add((await stream.picked())[0])
            await stream.passed_on()
            await stream.respond(b'data: {"choices":[{}]}\n\n', END)
            await stream.end()
        assert len(places) == 1
        running.nothing_is_left()


async def test_requests_that_are_under_way_count_before_any_scrape_shows_them(state_dir: Path) -> None:
    async with picker(state_dir, 3) as running:
        streams, places = [], []
        for number in range(3):
            stream = running.proxy.stream()
            body = json.dumps({"prompt": str(number) * 40_000, "model": "m"}).encode()
            await stream.request(body)
            places.append((await stream.picked())[0])
            await stream.passed_on()
            streams.append(stream)
        assert len(set(places)) == 3
        for stream in streams:
            await stream.end()
        running.nothing_is_left()


async def test_the_endpoint_that_served_is_the_one_that_counts(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        _, second = await stream.picked()
        await stream.passed_on()
        given = headers({":status": "200"})
        await stream.send(response_headers=given, metadata_context=metadata(envoy_lb={SERVED: second}))
        await stream.receive()
        assert running.in_flight() == {second: 1}
        await stream.send(response_body=pb.HttpBody(body=END, end_of_stream=True))
        await stream.receive()
        await stream.end()
        running.nothing_is_left()


async def test_an_endpoint_that_nobody_knows_may_have_served(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        await answered(stream, served="10.9.9.9:8000")
        running.nothing_is_left()


async def test_the_lengths_of_answers_are_learned(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        for _ in range(30):
            stream = running.proxy.stream()
            await stream.request(BODY)
            await answered(stream)
        assert running.model.lengths.expected(Origin("m"), 20, 1000) == pytest.approx(3, abs=1)
        running.nothing_is_left()
