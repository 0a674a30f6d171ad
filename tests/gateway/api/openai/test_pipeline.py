"""Through the application: chains of models, of which the first that can answers."""

from typing import Any

import pytest

from protos.types import Failure
from tests.asgi import gateway_of
from tests.fakes import RefusesWith, SilentEngine
from tests.gateway.api.accounts import used
from tests.harness import MODEL, bounded, engine_of, until
from tests.upstreams import ANSWER, END, EVENT, Caller, Heard, plain, streamed, upstream

BROKEN = plain(b"oops", "500 Internal Server Error", kind="text/plain")


def chained(url: str, *models: str, **fields: Any) -> dict[str, Any]:
    """A model of an upstream, with others behind it."""
    pool = {"name": "up", "engine": "openai", "replicas": [url]}
    given = {"models": models} | {name: fields.pop(name) for name in ("order", "usd", "ttft_ms") if name in fields}
    return {"name": "first", "context": 4096, "pools": [pool], "fallbacks": given} | fields


def plainly(name: str, url: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "context": 4096, "pools": [{"name": "up", "engine": "openai", "replicas": [url]}]} | fields


@pytest.mark.parametrize("stream", [False, True])
def test_the_next_model_answers_where_one_fails_and_is_paid(store_url: str, stream: bool) -> None:
    async def main() -> None:
        tenant = {"name": "chained", "limits": {"tpm": 100_000}}
        async with upstream() as broken:
            broken.behaves = BROKEN
            models = [chained(broken.url, MODEL)]
            async with gateway_of(store_url, engine_of(), more_models=models, tenant=tenant) as client:
                answer = await client.chat(model="first", stream=stream, max_tokens=4)
                assert answer.status == 200
                assert answer.headers["x-penstock-fallback"] == MODEL
                shown = answer.events[0] if stream else answer.json
                assert shown["model"] == MODEL
                assert len(broken.heard) == 1
                row = await used(client, "chained")
                assert (row.requests, row.output_tokens) == (1, 4)
                direct = await client.chat(max_tokens=4)
                assert "x-penstock-fallback" not in direct.headers

    bounded(main)


def test_the_last_ones_error_is_the_answer(store_url: str) -> None:
    async def main() -> None:
        async with upstream() as broken, upstream() as limited:
            broken.behaves = BROKEN
            limited.behaves = plain(b"{}", "429 Too Many Requests", retry_after="3")
            models = [chained(broken.url, "second"), plainly("second", limited.url)]
            async with gateway_of(store_url, more_models=models) as client:
                answer = await client.chat(model="first")
                assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")

    bounded(main)


def test_a_model_that_takes_too_long_is_given_up(store_url: str) -> None:
    async def silent(caller: Caller, heard: Heard) -> None:
        await caller.gone()

    async def main() -> None:
        async with upstream() as slow, upstream() as quick:
            slow.behaves = silent
            quick.behaves = streamed(EVENT % b"hi", END)
            models = [chained(slow.url, "second", ttft_ms=50), plainly("second", quick.url)]
            async with gateway_of(store_url, more_models=models) as client:
                answer = await client.chat(model="first", stream=True)
                assert answer.status == 200
                assert answer.events[0]["model"] == "second"
                await until(lambda: slow.open <= 1)
                assert client.gateway.models["first"].first_tokens.seconds >= 0.05
                assert client.gateway.models["second"].first_tokens.seconds > 0.0

    bounded(main)


def test_a_budget_leaves_out_what_is_too_dear(store_url: str) -> None:
    async def main() -> None:
        async with upstream() as dear, upstream() as cheap:
            dear.behaves = cheap.behaves = plain(ANSWER)
            models = [
                chained(dear.url, "second", usd=0.01, price={"input": 1000.0, "output": 1000.0}),
                plainly("second", cheap.url, price={"input": 0.1, "output": 0.1}),
            ]
            async with gateway_of(store_url, more_models=models) as client:
                assert (await client.chat(model="first", max_tokens=1000)).json["model"] == "second"
                assert not dear.heard

    bounded(main)


def test_the_cheapest_fallback_is_first_if_asked(store_url: str) -> None:
    async def main() -> None:
        async with upstream() as broken, upstream() as dear, upstream() as cheap:
            broken.behaves, dear.behaves, cheap.behaves = BROKEN, plain(ANSWER), plain(ANSWER)
            models = [
                chained(broken.url, "dear", "cheap", order="cost"),
                plainly("dear", dear.url, price={"output": 5.0}),
                plainly("cheap", cheap.url, price={"output": 1.0}),
            ]
            async with gateway_of(store_url, more_models=models) as client:
                assert (await client.chat(model="first")).json["model"] == "cheap"
                assert not dear.heard

    bounded(main)


def test_what_the_first_one_cannot_do_another_may(store_url: str) -> None:
    """Too long a prompt, and a feature that its engines lack."""

    async def main() -> None:
        async with upstream() as found:
            fields = {"fallbacks": {"models": ["second"]}, "context": 64}
            models = [plainly("second", found.url)]
            async with gateway_of(store_url, engine_of(), more_models=models, model_fields=fields) as client:
                long = [{"role": "user", "content": "word " * 200}]
                assert (await client.chat(messages=long)).json["model"] == "second"
                tools = [{"type": "custom", "custom": {"name": "f"}}]
                assert (await client.chat(tools=tools)).json["model"] == "second"
                assert (await client.chat(max_tokens=3)).json["model"] == MODEL

    bounded(main)


def test_what_the_last_one_cannot_take_is_not_the_clients_fault(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The model that was asked for could, if it were there: clients that try again may be answered by it."""

    async def main() -> None:
        async with upstream() as away:
            away.behaves = plain(b"{}", "503 Service Unavailable")
            async with gateway_of(store_url, engine_of(), more_models=[chained(away.url, MODEL)]) as client:
                answer = await client.chat(model="first", tools=[{"type": "custom", "custom": {"name": "f"}}])
                assert (answer.status, answer.error["code"]) == (503, "replica_unavailable")
                assert f"model first falls back to {MODEL}: replica_unavailable status 503" in caplog.text

    bounded(main)


def test_what_is_the_clients_fault_stays_so(store_url: str) -> None:
    async def main() -> None:
        async with upstream() as found:
            fields = {"fallbacks": {"models": ["second"]}}
            models = [plainly("second", found.url)]
            async with gateway_of(store_url, engine_of(), more_models=models, model_fields=fields) as client:
                assert (await client.chat(temperature=9)).status == 400
                assert (await client.chat(messages=[])).status == 400
            assert not found.heard

    bounded(main)


def test_a_key_gets_no_model_that_it_may_not_use(store_url: str) -> None:
    async def main() -> None:
        async with upstream() as broken, upstream() as secret:
            broken.behaves = BROKEN
            models = [chained(broken.url, "second"), plainly("second", secret.url)]
            async with gateway_of(store_url, more_models=models, models=["first"]) as client:
                assert (await client.chat(model="first")).status == 502
                assert not secret.heard

    bounded(main)


def test_an_engine_that_refuses_and_one_that_says_nothing(store_url: str) -> None:
    async def main() -> None:
        failing = RefusesWith(Failure("engine_error", "broken"))
        async with upstream() as found:
            fields = {"fallbacks": {"models": ["second"], "ttft_ms": 1500}}
            models = [plainly("second", found.url)]
            async with gateway_of(store_url, failing, more_models=models, model_fields=fields) as client:
                assert (await client.chat()).json["model"] == "second"
            silent = SilentEngine()
            async with gateway_of(store_url, silent, more_models=models, model_fields=fields) as client:
                assert (await client.chat()).json["model"] == "second"
                await until(lambda: bool(silent.cancelled))

    bounded(main)
