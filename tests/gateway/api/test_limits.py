"""Limits over HTTP, from a client's request to the store and back; what users of other gateways complain of is here."""

import asyncio
from typing import Any

import orjson
import pytest

from gateway.config.tenants import Tenant
from gateway.store.embedded import EmbeddedStore
from gateway.tenancy.auth.key_store import PREFIX
from gateway.tenancy.limits.usage_reading import TenantState, tenant_state
from protos.types import Failure
from tests.asgi import CHAT, COMPLETIONS, HELLO, Answer, Client, gateway_of
from tests.fakes import DiesAfter, RefusesWith, SilentEngine
from tests.gateway.api.accounts import used
from tests.gateway.tenancy.limits.worker import frozen
from tests.harness import MODEL, engine_of, gated_engine, readable_corpus
from tests.loops import until
from tests.stores import is_idle

PRICE = {"input": 1000.0, "cached_input": 1000.0, "output": 2000.0}
RATE = {"limit", "remaining", "reset"}


def tenant_of(**fields: Any) -> dict[str, Any]:
    limits = {name: fields.pop(name) for name in list(fields) if name not in Tenant.__struct_fields__}
    return {"name": "acme", "limits": limits, **fields}


async def state_of(client: Client, tenant: str = "acme") -> TenantState:
    await until(lambda: is_idle(client.gateway._limits_batcher))
    return await tenant_state(client.gateway._store, tenant, ["tenant"], [("tenant", "month")])


async def in_flight(client: Client) -> int:
    return (await state_of(client)).scopes[0].in_flight


def rate_of(answer: Answer) -> dict[str, str]:
    return {name[12:]: value for name, value in answer.headers.items() if name.startswith("x-ratelimit-")}


def check_refused(answer: Answer, code: str) -> str:
    """The rules of every 429 of a limit that waiting helps; its message."""
    assert answer.status == 429
    assert (answer.error["type"], answer.error["code"]) == ("rate_limit_exceeded", code)
    assert answer.headers["x-should-retry"] == "true"
    seconds, milliseconds = int(answer.headers["retry-after"]), int(answer.headers["retry-after-ms"])
    assert 0 < milliseconds <= 1000 * seconds <= 61_000
    assert "x-request-id" in answer.headers
    message: str = answer.error["message"]
    return message


@pytest.mark.parametrize(
    ("limits", "code", "words"),
    [
        ({"rpm": 2}, "requests_per_minute", "tenant 'acme' on requests per minute (RPM): limit 2, used 2, requested 1"),
        ({"tpm": 70}, "tokens_per_minute", "tenant 'acme' on tokens per minute (TPM): limit 70"),
        ({"input_tpm": 12}, "input_tokens_per_minute", "tenant 'acme' on input tokens per minute: limit 12"),
        ({"output_tpm": 45}, "output_tokens_per_minute", "tenant 'acme' on output tokens per minute: limit 45"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_limit_of_a_minute(
    store_url: str, limits: dict[str, int], code: str, words: str, stream: bool
) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(**limits)) as client:
        answers = [await client.chat(stream=stream, ignore_eos=True) for _ in range(4)]
        served = [answer for answer in answers if answer.status == 200]
        assert 1 <= len(served) <= 3
        for answer in answers[len(served) :]:
            assert words in check_refused(answer, code)
        kind = "requests" if "rpm" in limits else "tokens"
        assert all(set(rate_of(answer)) == {f"{name}-{kind}" for name in RATE} for answer in answers)
        assert int(rate_of(answers[0])[f"limit-{kind}"]) == next(iter(limits.values()))
        row = await used(client)
        assert (row.requests, row.rejected_requests) == (len(served), 4 - len(served))
        assert await in_flight(client) == 0


async def test_the_limit_on_concurrent_requests(store_url: str) -> None:
    engine, gate = gated_engine()
    async with gateway_of(store_url, engine, tenant=tenant_of(concurrency=2, rpm=100)) as client:
        running = [asyncio.ensure_future(client.chat(stream=number == 1)) for number in range(2)]
        while await in_flight(client) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        for stream in (False, True):
            refused = await client.chat(stream=stream)
            assert "on concurrent requests: limit 2, used 2" in check_refused(refused, "concurrent_requests")
            # Refused by one limit, it has used up none of the other.
            assert rate_of(refused)["remaining-requests"] == "98"
        gate.open()
        assert [answer.status for answer in await asyncio.gather(*running)] == [200, 200]
        assert (await client.chat()).status == 200
        assert await in_flight(client) == 0


async def test_a_keys_own_limits_and_those_of_one_model(store_url: str) -> None:
    tenant = tenant_of(rpm=100, model_limits={MODEL: {"rpm": 3}})
    async with gateway_of(store_url, engine_of(), tenant=tenant, key_limits={"rpm": 2}) as client:
        for _ in range(2):
            assert (await client.chat()).status == 200
        assert "for API key 'key_" in check_refused(await client.chat(), "requests_per_minute")
    async with gateway_of(store_url, engine_of(), tenant=tenant) as client:
        assert (await client.chat()).status == 200
        assert f"with model '{MODEL}'" in check_refused(await client.chat(), "requests_per_minute")


async def test_a_request_larger_than_a_limit_is_not_to_be_tried_again(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(tpm=30)) as client:
        answer = await client.complete(prompt="word " * 100)
        assert (answer.status, answer.error["code"]) == (429, "tokens_per_minute")
        assert "Request too large for tenant 'acme'" in answer.error["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
        assert (await client.complete(prompt="Hello")).status == 200


async def test_a_spent_budget_is_not_to_be_tried_again(store_url: str) -> None:
    tenant = tenant_of(budget={"usd": 0.05, "period": "month"})
    async with gateway_of(store_url, engine_of(), tenant=tenant, price=PRICE) as client:
        answers = [await client.chat(stream=number % 2 == 0, ignore_eos=True) for number in range(4)]
        assert [answer.status for answer in answers] == [200, 429, 429, 429]
        for answer in answers[1:]:
            assert (answer.error["type"], answer.error["code"]) == ("insufficient_quota", "insufficient_quota")
            assert answer.headers["x-should-retry"] == "false"
            assert "retry-after" not in answer.headers
            assert "The monthly budget of tenant 'acme'" in answer.error["message"]
            assert "of $0.05" in answer.error["message"]
        (money,) = (await state_of(client)).budgets
        row = await used(client)
        assert money.spent_usd == row.cost_usd
        assert money.spent_usd == pytest.approx((row.input_tokens * 1000 + row.output_tokens * 2000) / 1e6)
        assert money.reserved_usd == 0


async def test_a_budget_is_not_refused_for_what_answers_might_have_cost(store_url: str) -> None:
    """Each request may have 1000 tokens for 2 dollars; a budget of 1 has room for many that use ten."""

    tenant = tenant_of(budget={"usd": 1.0, "period": "month"})
    engine = engine_of(corpus=readable_corpus())
    async with gateway_of(store_url, engine, tenant=tenant, price=PRICE) as client:
        for _ in range(10):
            answer = await client.chat(max_tokens=1000, stop="e")
            assert answer.status == 200
        (money,) = (await state_of(client)).budgets
        assert money.spent_usd < 1


async def test_a_small_limit_does_not_refuse_a_first_small_request(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(tpm=40, output_tpm=20)) as client:
        assert (await client.chat(max_tokens=1500, stop="e")).status == 200


async def test_tokens_per_minute_hold_under_concurrency(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(tpm=500)) as client:
        answers = await asyncio.gather(*(client.chat(ignore_eos=True) for _ in range(60)))
        served = [answer for answer in answers if answer.status == 200]
        assert served
        assert sum(answer.json["usage"]["total_tokens"] for answer in served) <= 500
        assert {answer.status for answer in answers} == {200, 429}
        (scope,) = (await state_of(client)).scopes
        assert scope.input_tokens + scope.output_tokens == sum(a.json["usage"]["total_tokens"] for a in served)


async def test_every_answer_tells_the_state_of_the_limits(store_url: str) -> None:
    names = {f"{name}-{kind}" for name in RATE for kind in ("requests", "tokens")}
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(rpm=50, tpm=10_000)) as client:
        first = await client.chat()
        assert rate_of(first)["remaining-requests"] == "49"
        answers = [
            await client.chat(stream=True),
            await client.complete(),
            await client.complete(stream=True),
            await client.chat(n=0),
            await client.chat(model="nope"),
            await client.chat(max_tokens=0),
            await client.request("POST", CHAT, b"{"),
            await client.request("GET", "/v1/models"),
            await client.request("GET", f"/v1/models/{MODEL}"),
        ]
        assert [answer.status for answer in answers] == [200, 200, 200, 400, 404, 400, 400, 200, 200]
        for answer in (first, *answers):
            found = rate_of(answer)
            assert set(found) == names
            assert (found["limit-requests"], found["limit-tokens"]) == ("50", "10000")
            assert found["reset-requests"] in ("1m0s", "1m1s")
        assert [rate_of(answer)["remaining-requests"] for answer in answers] == ["48", "47", *["46"] * 7]


async def test_a_stranger_learns_nothing_of_limits(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(rpm=50)) as client:
        await client.chat()
        answer = await client.request("POST", CHAT, b"", [(b"authorization", b"Bearer wrong")])
        assert answer.status == 401
        assert rate_of(answer) == {}


async def test_a_tenant_without_limits_has_no_such_headers_and_is_counted(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of()) as client:
        answers = [await client.chat(ignore_eos=True), await client.chat(stream=True, ignore_eos=True)]
        assert [rate_of(answer) for answer in answers] == [{}, {}]
        row = await used(client)
        assert (row.requests, row.output_tokens) == (2, 40)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_leaves_gives_its_slot_back_and_pays_for_what_it_got(store_url: str, begun: bool) -> None:
    engine, gate = gated_engine(corpus=readable_corpus())
    async with gateway_of(store_url, engine, tenant=tenant_of(concurrency=1, rpm=50)) as client:
        for _ in range(3):
            call = client.call("POST", CHAT)
            call.put(orjson.dumps({"model": MODEL, "messages": HELLO, "stream": True, "max_tokens": 900}))
            assert call.task is not None
            while await in_flight(client) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            while begun and len(call.sent) < 4:
                gate.let(1)
                assert not call.task.done()
                await asyncio.sleep(0.001)
            call.disconnect()
            await asyncio.gather(call.task, return_exceptions=True)
            assert await in_flight(client) == 0
        row = await used(client)
        assert row.requests == 3
        assert row.input_tokens > 0
        assert row.output_tokens >= (6 if begun else 0)
        gate.open()
        assert (await client.chat()).status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_replica_that_fails_gives_everything_back(store_url: str, stream: bool) -> None:
    failure = Failure("engine_error", "CUDA out of memory")
    async with gateway_of(store_url, RefusesWith(failure), tenant=tenant_of(rpm=9, concurrency=3)) as client:
        for _ in range(3):
            answer = await client.chat(stream=stream)
            assert answer.status == 502
            assert rate_of(answer)["limit-requests"] == "9"
        (scope,) = (await state_of(client)).scopes
        assert (scope.in_flight, scope.requests, scope.input_tokens) == (0, 0, 0)
        assert (await used(client)).requests == 0


async def test_a_stream_that_breaks_does_not_look_whole_and_is_settled(store_url: str) -> None:
    engine = DiesAfter(5)
    async with gateway_of(store_url, engine, tenant=tenant_of(concurrency=1, rpm=9)) as client:
        answer = await client.chat(stream=True)
        assert answer.status == 200
        assert answer.events[-1] != "[DONE]"
        assert "error" in answer.events[-1]
        assert rate_of(answer)["limit-requests"] == "9"
        assert await in_flight(client) == 0
        row = await used(client)
        assert row.requests == 1
        assert 0 < row.output_tokens <= 5


@pytest.mark.parametrize(("stream", "value"), [(False, b"1.5"), (True, b"1500ms")])
async def test_a_clients_own_deadline(store_url: str, stream: bool, value: bytes) -> None:
    engine = SilentEngine()
    async with gateway_of(store_url, engine, tenant=tenant_of(concurrency=1, rpm=9)) as client:
        headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-request-timeout", value)]
        body = {"model": MODEL, "messages": HELLO, "max_tokens": 20, "stream": stream}
        answer = await client.request("POST", CHAT, body, headers)
        assert (answer.status, answer.error["code"]) == (504, "timeout")
        assert await in_flight(client) == 0
        assert (await used(client)).requests == 1


@pytest.mark.parametrize("value", [b"0", b"-1", b"soon", b"1h", b"nan", b"1e9"])
async def test_a_deadline_that_is_none_is_refused_by_name(store_url: str, value: bytes) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(rpm=9)) as client:
        headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-request-timeout", value)]
        for path in (CHAT, COMPLETIONS):
            answer = await client.request("POST", path, b"{}", headers)
            assert (answer.status, answer.error["param"]) == (400, "x-request-timeout")
        assert (await state_of(client)).scopes[0].requests == 0


async def test_tokens_of_one_request_are_bounded_and_defaulted(store_url: str) -> None:
    tenant = tenant_of(max_input_tokens=50, max_output_tokens=40, default_output_tokens=6, rpm=50)
    async with gateway_of(store_url, engine_of(), tenant=tenant, key_limits={"max_output_tokens": 30}) as client:
        for answer, param in (
            (await client.chat(max_tokens=31), "max_tokens"),
            (await client.chat(max_tokens=16, n=2), "max_tokens"),
            (await client.chat(max_tokens=None, max_completion_tokens=31), "max_completion_tokens"),
            (await client.chat(messages=[{"role": "user", "content": "word " * 60}]), "messages"),
            (await client.complete(prompt="word " * 60), "prompt"),
        ):
            assert (answer.status, answer.error["code"]) == (400, "token_limit_exceeded")
            assert answer.error["param"] == param
            assert "_tokens)" in answer.error["message"]
        answer = await client.chat(max_tokens=None, ignore_eos=True)
        assert answer.json["usage"]["completion_tokens"] == 6
        answer = await client.chat(max_tokens=30, ignore_eos=True)
        assert answer.json["usage"]["completion_tokens"] == 30
        assert (await used(client)).rejected_requests == 0
        assert (await state_of(client)).scopes[0].requests == 2


async def test_use_is_counted_whether_or_not_the_client_asks_for_it(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), tenant=tenant_of(tpm=10_000)) as client:
        await client.chat(stream=True, ignore_eos=True)
        await client.chat(stream=True, ignore_eos=True, stream_options={"include_usage": True})
        whole = (await client.chat(ignore_eos=True)).json["usage"]
        row = await used(client)
        assert row.input_tokens == 3 * whole["prompt_tokens"]
        assert row.output_tokens == 3 * whole["completion_tokens"]


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("policy", ["fail_open", "fail_closed"])
async def test_a_store_that_is_away(own_store: EmbeddedStore, policy: str) -> None:
    tenant = tenant_of(rpm=3, on_store_failure=policy)
    async with gateway_of(own_store.url, engine_of(), tenant=tenant) as client:
        assert (await client.chat()).status == 200
        assert own_store.pid is not None
        with frozen(own_store.pid, client.gateway._store, client.gateway._limits_batcher):
            answers = [await client.chat() for _ in range(5)]
            if policy == "fail_open":
                assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
                check_refused(answers[-1], "requests_per_minute")
            else:
                for answer in answers:
                    assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
                    assert answer.headers["x-should-retry"] == "true"
                    assert int(answer.headers["retry-after"]) >= 1
            # A key that nobody can look up is not called wrong.
            unknown = [(b"authorization", b"Bearer " + PREFIX.encode() + b"A" * 43)]
            answer = await client.request("POST", CHAT, b"{}", unknown)
            assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        await until(lambda: client.gateway._limits_batcher.available)
        row = await used(client)
        assert row.requests == (4 if policy == "fail_open" else 1)
        assert await in_flight(client) == 0
