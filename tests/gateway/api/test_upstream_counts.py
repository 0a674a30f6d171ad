"""Through the application: an upstream's counts and the limits on answers' lengths."""

import base64
import struct
from typing import Any

import orjson
import pytest

from tests.asgi import gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.upstreams import ANSWER, EVENT, STREAM, Caller, Heard, chunk, plain, streamed, upstream

COUNTS = ANSWER.index(b'{"prompt_tokens"')


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        (b'{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":500}}', (7, 7, 3)),
        (b'{"prompt_tokens":-7,"completion_tokens":3}', None),
        (b'{"prompt_tokens":7,"completion_tokens":1' + b"0" * 30 + b"}", None),
        (b'{"prompt_tokens":7,"completion_tokens":9000000000000000000}', None),
    ],
)
async def test_impossible_counts_are_none(store_url: str, counts: bytes, found: tuple[int, int, int] | None) -> None:
    tenant = {"name": "payer", "limits": {"tpm": 100_000}}
    price: dict[str, Any] = {"input": 1000.0, "cached_input": 0.0, "output": 2000.0}
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=price)], tenant=tenant) as client,
    ):
        one.behaves = plain(ANSWER[:COUNTS] + counts + b"}")
        assert (await client.chat(model=NAME)).status == 200
        row = await used(client, "payer")
        assert row.requests == 1
        if found is not None:
            assert (row.input_tokens, row.cached_tokens, row.output_tokens) == found
        else:
            # What the gateway itself thinks of it.
            assert row.input_tokens < 100 and row.output_tokens <= 20 and not row.cached_tokens
        assert 0 < row.cost_usd < 1


@pytest.mark.parametrize(
    ("limits", "fields", "told"),
    [
        ({}, {}, None),
        ({"default_output_tokens": 50}, {}, 50),
        ({"max_output_tokens": 90}, {}, 90),
        ({"max_output_tokens": 90, "default_output_tokens": 50}, {"n": 3}, 30),
        ({"max_output_tokens": 90}, {"max_completion_tokens": 20}, None),
        # What the context leaves after a body of this size is a guess, which nobody is to suffer from.
        ({"default_output_tokens": 50}, {"messages": [{"role": "user", "content": "x" * 20_000}]}, 50),
    ],
)
async def test_a_limit_that_the_client_leaves_to_its_tenant_is_told_upstream(
    store_url: str, limits: dict[str, int], fields: dict[str, Any], told: int | None
) -> None:
    tenant = {"name": "payer", "limits": limits}
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)], tenant=tenant) as client:
        answer = await client.chat(model=NAME, max_tokens=None, **fields)
        assert answer.status == 200
        assert orjson.loads(one.heard[0].body).get("max_tokens") == told


async def test_what_the_bound_is_called_there(store_url: str) -> None:
    tenant = {"name": "payer", "limits": {"max_output_tokens": 90}}
    async with upstream() as one:
        model = hosted(one)
        model["pools"][0]["upstream"] = {"limit_as": "max_completion_tokens"}
        async with gateway_of(store_url, more_models=[model], tenant=tenant) as client:
            assert (await client.chat(model=NAME, max_tokens=None)).status == 200
            assert (await client.complete(model=NAME, max_tokens=None)).status == 200
            bounds = [
                {
                    name: value
                    for name, value in orjson.loads(heard.body).items()
                    if name.startswith("max_") and value is not None
                }
                for heard in one.heard
            ]
            # Text completions know the one name alone.
            assert bounds[0] == {"max_completion_tokens": 90}
            assert "max_completion_tokens" not in bounds[1]


PRICE: dict[str, Any] = {"input": 1000.0, "cached_input": 100.0, "output": 2000.0}
FOREIGN_END = (
    b'data: {"id":"c","model":"theirs","choices":[{"index":0,"delta":{},"finish_reason":"stop"%b}]%b}'
    b"\n\ndata: [DONE]\n\n"
)
KIMI = b'"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cached_tokens":90}'


@pytest.mark.parametrize(
    "end",
    [
        FOREIGN_END % (b"," + KIMI, b""),
        FOREIGN_END % (b"", b',"x_groq":{"id":"r",' + KIMI + b"}"),
        FOREIGN_END % (b"", b"," + KIMI),
    ],
)
async def test_a_stream_tells_its_usage_in_places_of_its_own(store_url: str, end: bytes) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=PRICE)], tenant={"name": "payer"}) as client,
    ):
        one.behaves = streamed(EVENT % b"a", end)
        await client.chat(model=NAME, stream=True)
        row = await used(client, "payer")
        assert (row.input_tokens, row.cached_tokens, row.output_tokens) == (100, 90, 5)
        assert row.cost_usd == pytest.approx((10 * 1000 + 90 * 100 + 5 * 2000) / 1e6)


@pytest.mark.parametrize("metered", [False, True])
async def test_zeros_are_counts(store_url: str, metered: bool) -> None:
    tenant: dict[str, Any] = {"name": "payer", "limits": {"tpm": 100_000} if metered else {}}
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=PRICE)], tenant=tenant) as client,
    ):
        one.behaves = plain(ANSWER[:COUNTS] + b'{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}')
        assert (await client.chat(model=NAME)).status == 200
        row = await used(client, "payer")
        assert (row.requests, row.input_tokens, row.output_tokens, row.cost_usd) == (1, 0, 0, 0)


@pytest.mark.parametrize("metered", [False, True])
async def test_writes_to_caches_and_sound_have_prices(store_url: str, metered: bool) -> None:
    tenant: dict[str, Any] = {"name": "payer", "limits": {"budget": {"usd": 5}} if metered else {}}
    price = PRICE | {"cache_write": 1250.0, "cache_write_1h": 2000.0, "audio_output": 9000.0}
    counts = (
        b'{"input_tokens":10,"cache_read_input_tokens":20,"cache_creation_input_tokens":70,"cache_creation":'
        b'{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":40},"output_tokens":5}}'
    )
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=price)], tenant=tenant) as client,
    ):
        one.behaves = plain(ANSWER[:COUNTS] + counts)
        assert (await client.chat(model=NAME)).status == 200
        row = await used(client, "payer")
        assert (row.input_tokens, row.cached_tokens, row.output_tokens) == (100, 20, 5)
        whole = (10 * 1000 + 20 * 100 + 30 * 1250 + 40 * 2000 + 5 * 2000) / 1e6
        assert row.cost_usd == pytest.approx(whole)
        sound = b'{"prompt_tokens":1,"completion_tokens":5,"completion_tokens_details":{"audio_tokens":4}}}'
        one.behaves = plain(ANSWER[:COUNTS] + sound)
        assert (await client.chat(model=NAME)).status == 200
        assert (await used(client, "payer")).cost_usd == pytest.approx(whole + (1000 + 2000 + 4 * 9000) / 1e6)


@pytest.mark.parametrize(
    ("start", "prompt", "completion"),
    [
        (b'data: {"choices":[],"usage":{"prompt_tokens":500,"completion_tokens":1}}\n\n', 500, 3),
        (b'data: {"choices":[],"usage":{"prompt_tokens":500,"completion_tokens":40}}\n\n', 500, 40),
        (b"", None, 3),
    ],
)
async def test_an_answer_that_breaks_off_is_charged_by_what_is_known(
    store_url: str, start: bytes, prompt: int | None, completion: int
) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=PRICE)], tenant={"name": "payer"}) as client,
    ):

        async def breaks_off(caller: Caller, heard: Heard) -> None:
            del heard
            await caller.say(STREAM + chunk(start + b"".join(EVENT % word for word in (b"a", b"b", b"c"))))

        one.behaves = breaks_off
        await client.chat(model=NAME, stream=True)
        row = await used(client, "payer")
        assert row.output_tokens == completion
        assert row.input_tokens == prompt if prompt is not None else 0 < row.input_tokens < 60


async def test_events_with_many_tokens_count_for_more_than_one(store_url: str) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=PRICE)], tenant={"name": "payer"}) as client,
    ):

        async def breaks_off(caller: Caller, heard: Heard) -> None:
            del heard
            await caller.say(STREAM + chunk(EVENT % b"hello"))
            for _ in range(5):
                await caller.say(chunk(EVENT % (b"word " * 80)))

        one.behaves = breaks_off
        await client.chat(model=NAME, stream=True)
        assert 6 < (await used(client, "payer")).output_tokens <= 510


async def test_a_whole_answer_without_counts_is_estimated_by_its_texts(store_url: str) -> None:
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=PRICE)], tenant={"name": "payer"}) as client,
    ):
        one.behaves = plain(ANSWER[: ANSWER.index(b',"usage"')] + b"}")
        assert (await client.chat(model=NAME)).status == 200
        assert (await used(client, "payer")).output_tokens == 1


async def test_a_picture_is_no_text(store_url: str) -> None:
    picture = struct.pack(">IIBBBBB", 512, 512, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + picture + b"\0\0\0\0" + b"\0\0\x4e\x20IDAT" + bytes(20_000)
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    tenant = {"name": "payer", "limits": {"tpm": 2000, "max_input_tokens": 500, "budget": {"usd": 0.9}}}
    async with (
        upstream() as one,
        gateway_of(store_url, more_models=[hosted(one, price=PRICE)], tenant=tenant) as client,
    ):
        one.behaves = plain(ANSWER[: ANSWER.index(b',"usage"')] + b"}")
        answer = await client.chat(model=NAME, messages=[{"role": "user", "content": content}])
        assert answer.status == 200
        assert 255 <= (await used(client, "payer")).input_tokens < 340
