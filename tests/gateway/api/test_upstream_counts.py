"""Through the application: an upstream's counts and the limits on answers' lengths."""

from typing import Any

import orjson
import pytest

from tests.asgi import gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.upstreams import ANSWER, plain, upstream

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
