"""Parameters that no upstream gets, and the client's salt of the prefix cache."""

from typing import Any

import orjson
import pytest

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.extension_params import KEPT, MAX_SALT
from observability.record import RequestRecord
from protos.errors import InvalidRequest
from tests.asgi import HELLO, gateway_of
from tests.gateway.api.openai.tools.offering import Format, model_of
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.harness import MODEL, engine_of
from tests.models import CALLER
from tests.upstreams import ANSWER, plain, upstream

OWN = {"rid": ["a"], "request_id": "abc", "keep_alive": "5m", "cache_salt": "mine"}
LONG = "Of all rivers that run to the sea this one is the longest. " * 8


def salt_of(**fields: Any) -> str:
    body = orjson.dumps({"model": "m", "messages": HELLO} | fields)
    reading = read_body(CHAT, body)
    return reading.request(CALLER, model_of(Format()), RequestRecord("", "", 0.0, 0.0)).caller.cache_owner


def test_the_clients_salt_is_joined_with_the_tenants() -> None:
    plain_one, first, second = salt_of(), salt_of(cache_salt="a"), salt_of(cache_salt="b", rid="x")
    assert len({plain_one, first, second}) == 3
    assert first == salt_of(cache_salt="a", request_id="y")
    assert first.startswith(CALLER.cache_owner)
    assert plain_one == CALLER.cache_owner == salt_of(cache_salt="") == salt_of(cache_salt=None, rid=None)


@pytest.mark.parametrize("salt", [5, ["a"], "x" * (MAX_SALT + 1)])
def test_a_salt_that_is_no_short_text_is_refused(salt: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        salt_of(cache_salt=salt)
    assert caught.value.param == "cache_salt"


def test_what_remains_of_the_body_keeps_its_bytes() -> None:
    rest = b'{"model":"m","prompt":"x","seed":12345678901234567,"temperature":0.10,"logit_bias":{"5":1.50}}'
    body = rest[:-1] + b',"r\\u0069d":"a","cache_salt":"s"}'
    reading = read_body(COMPLETIONS, body)
    assert reading.body == rest
    assert reading.foreign is None


async def test_an_upstream_gets_none_of_them(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        wanted: tuple[dict[str, Any], ...] = (OWN, OWN | {"web_search_options": {}})
        for fields in wanted:
            found.behaves = plain(ANSWER)
            assert (await client.chat(model=NAME, **fields)).status == 200
            assert orjson.loads(found.heard[-1].body).keys() & KEPT == set()


async def test_requests_of_different_salts_find_nothing_of_each_other(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        counts = []
        for salt in ("a", "a", "b", None, None):
            answer = await client.complete(prompt=LONG, max_tokens=1, cache_salt=salt, keep_alive=-1)
            assert answer.status == 200, answer.body
            counts.append(answer.json["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert [count > 0 for count in counts] == [False, True, False, False, True]


async def test_responses_and_filtered_prompts_have_their_salt(store_url: str) -> None:
    prompt = f"Write to anna.bell@mail.example.org. {LONG}"
    async with gateway_of(store_url, engine_of(), safety={"input": ["pii"]}) as client:
        counts = []
        for salt in ("a", "a", "b"):
            answer = await client.complete(prompt=prompt, max_tokens=1, cache_salt=salt)
            assert answer.status == 200, answer.body
            counts.append(answer.json["usage"]["prompt_tokens_details"]["cached_tokens"])
        for salt in ("c", "c"):
            call = client.call("POST", "/v1/responses")
            call.put(orjson.dumps({"model": MODEL, "input": prompt, "cache_salt": salt, "rid": "x", "store": False}))
            answer = await call.answer()
            assert answer.status == 200, answer.body
            counts.append(answer.json["usage"]["input_tokens_details"]["cached_tokens"])
        assert [count > 0 for count in counts] == [False, True, False, False, True]
