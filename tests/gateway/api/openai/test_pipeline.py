"""From a request that has been read to its generation: alone with counting parts, and through the application."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import orjson
import pytest

from gateway.api.openai import pipeline as module
from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.pipeline import Pipeline
from gateway.config.models.fallbacks import Fallbacks
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.inference.generate_request import Chat, GenerateRequest
from gateway.inference.request_context import RequestContext
from gateway.models.served_model import ServedModel
from observability.record import RequestRecord
from protos.errors import ContentFiltered, PenstockError, ReplicaUnavailable
from protos.types import Failure, Payload
from routing.dispatch.dispatch import RequestHandle
from tests.asgi import gateway_of
from tests.fakes import RefusesWith, SilentEngine
from tests.gateway.api.accounts import used
from tests.harness import MODEL, engine_of
from tests.loops import until
from tests.models import CALLER, model_of
from tests.upstreams import ANSWER, END, EVENT, Caller, Heard, plain, streamed, upstream

BROKEN = plain(b"oops", "500 Internal Server Error", kind="text/plain")


def chained(url: str, *models: str, **fields: Any) -> dict[str, Any]:
    """A model of an upstream, with others behind it."""
    pool = {"name": "up", "engine": "openai", "replicas": [url]}
    given = {"models": models} | {name: fields.pop(name) for name in ("order", "usd", "ttft_ms") if name in fields}
    return {"name": "first", "context": 4096, "pools": [pool], "fallbacks": given} | fields


def plainly(name: str, url: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "context": 4096, "pools": [{"name": "up", "engine": "openai", "replicas": [url]}]} | fields


class Bench:
    """A pipeline with everything but generation: `began` has what each model was asked for."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        body: dict[str, Any],
        *models: ServedModel,
        api: CompletionApi = CHAT,
        rules: bool = False,
        fails: Mapping[str, PenstockError] | None = None,
        explained: Any = None,
        adapted: bool = False,
    ) -> None:
        self.began: list[tuple[GenerateRequest, RequestContext, Payload | None]] = []
        self.several: list[tuple[GenerateRequest, RequestContext]] = []
        self.screened: list[tuple[str, Any, bool]] = []
        self.policies: list[tuple[str, ...]] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.passes = True
        self.answers: AnswerFilter | None = None
        self._rules, self._fails = rules, fails or {}
        for name in ("generate", "generate_several", "screen_prompt"):
            patch.setattr(module, name, getattr(self, f"_{name}"))
        patch.setattr(module, "passes_prefilter", lambda *_: self.passes)
        patch.setattr(module, "filter_of_answers", lambda *_: self.answers)
        asked, sent = models[0], orjson.dumps({"model": "m"} | body)
        record = RequestRecord("r", "chat", 0.0, 0.0)
        exchange = SimpleNamespace(handle=RequestHandle(), request_id="r", record=record, caller_headers=list)
        self.exchange = exchange
        incoming = SimpleNamespace(exchange=exchange, wait_until=5.0, deadline=9.0)
        catalog = SimpleNamespace(models={model.name: model for model in models})
        services = SimpleNamespace(limiter=object(), encoding=object(), policies=self, catalog=catalog)
        reading = read_body(api, sent)
        request = reading.request(CALLER, asked, record)
        parts: Any = (services, incoming, reading, sent, request, explained)
        self.pipeline = Pipeline(*parts, adapted=adapted)

    def of(self, tenant: Any, *names: str) -> Any:
        self.policies.append(names)
        return names if self._rules else None

    async def _generate(self, request: GenerateRequest, context: RequestContext, payload: Payload | None) -> Any:
        self.began.append((request, context, payload))
        if request.model.name in self._fails:
            raise self._fails[request.model.name]
        return request.model.name

    async def _generate_several(self, request: GenerateRequest, context: RequestContext) -> Any:
        self.several.append((request, context))
        return request.model.name

    async def _screen_prompt(
        self, encoding: Any, exchange: Any, caller: Any, model: Any, policy: Any, reading: Any, body: Any, launch: Any,
        *, again: bool,
    ) -> Any:  # fmt: skip
        self.screened.append((model.name, policy, again))
        return await launch(read_body(reading.api, REDACTED), REDACTED, self.answers)

    async def run(self) -> Any:
        """The name of the model that answers."""
        return await self.pipeline.run()

    @property
    def payload(self) -> Payload | None:
        ((_, _, payload),) = self.began
        return payload


BASE = model_of()
TEXT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 7}
REDACTED = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "[X]"}], "max_tokens": 7})
ANSWERS = AnswerFilter(None, (), None, False, cast("Any", None))
AWAY = ReplicaUnavailable("away")


def chain_of(*names: str, relays: str = "") -> list[ServedModel]:
    """Models of which the first falls back to the others."""
    first, *others = (replace(BASE, name=name, relays=name in relays) for name in names)
    return [replace(first, fallbacks=Fallbacks(models=tuple(names[1:]))), *others] if others else [first]


async def test_a_request_goes_to_its_model_with_what_the_intake_has_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    explained = object()
    bench = Bench(monkeypatch, TEXT, *chain_of("m"), explained=explained)
    assert await bench.run() == "m"
    ((request, context, payload),) = bench.began
    assert request is bench.pipeline.request
    assert (context.wait_until, context.deadline, context.handle) == (5.0, 9.0, bench.exchange.handle)
    assert context.explained is explained
    assert payload is None, "nobody of its model's speaks the API"
    assert bench.policies == [("m",)]


async def test_fallbacks_are_asked_in_their_order_as_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(
        monkeypatch, TEXT, *chain_of("m", "b", "c", relays="b"), fails={"m": AWAY, "b": AWAY}, explained=object()
    )
    assert await bench.run() == "c"
    assert [request.model.name for request, _, _ in bench.began] == ["m", "b", "c"]
    assert [context.explained is None for _, context, _ in bench.began] == [False, True, True]
    assert [payload and payload.answer_model for _, _, payload in bench.began] == [None, "b", None]
    assert all(request.record is bench.exchange.record for request, _, _ in bench.began)
    assert bench.exchange.caller_headers() == [(b"x-penstock-fallback", b"c")]


async def test_the_filters_run_again_for_a_fallback_with_the_rules_of_both_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, TEXT, *chain_of("m", "b", "c"), rules=True, fails={"m": AWAY, "b": AWAY})
    bench.answers, bench.passes = ANSWERS, False
    assert await bench.run() == "c"
    assert bench.policies == [("m",), ("m", "b"), ("m", "c")]
    assert bench.screened == [("m", ("m",), False), ("b", ("m", "b"), True), ("c", ("m", "c"), True)]
    assert [request.filter for request, _, _ in bench.began] == [ANSWERS] * 3
    prompts = [cast("Chat", request.prompt).messages[0]["content"] for request, _, _ in bench.began]
    assert prompts == ["[X]"] * 3, "what the filters leave is asked"


async def test_what_passes_the_prefilter_goes_on_as_it_is_but_not_to_a_fallback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, TEXT, *chain_of("m", "b"), rules=True, fails={"m": AWAY})
    bench.answers = ANSWERS
    assert await bench.run() == "b"
    assert bench.screened == [("b", ("m", "b"), False)], "it is the first time that it goes through filters whole"
    first, second = (request for request, _, _ in bench.began)
    assert (first.filter, second.filter) == (ANSWERS, ANSWERS)
    assert msgspec.structs.replace(first, filter=None) == bench.pipeline.request


async def test_a_refusal_of_the_filters_is_no_reason_to_ask_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, TEXT, *chain_of("m", "b"), fails={"m": ContentFiltered("no")})
    with pytest.raises(ContentFiltered):
        await bench.run()
    assert len(bench.began) == 1


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_only_models_that_relay_get_the_body(
    monkeypatch: pytest.MonkeyPatch, adapted: bool, stream: bool
) -> None:
    body = TEXT | {"stream": stream}
    bench = Bench(monkeypatch, body, *chain_of("m", relays="m"), adapted=adapted)
    await bench.run()
    payload = bench.payload
    assert payload is not None
    assert orjson.loads(payload.body) == {"model": "m"} | body
    assert (payload.path, payload.stream, payload.answer_model) == (CHAT.path, stream, "m")
    # An adapter reads the counts, and its bound is the gateway's to name.
    assert bench.pipeline.include_usage is payload.usage is adapted
    assert payload.max_tokens == (7 if adapted else None)


async def test_an_upstream_gets_what_the_filters_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, TEXT, *chain_of("m", relays="m"), rules=True)
    bench.passes = False
    await bench.run()
    assert bench.payload is not None
    assert bench.payload.body == REDACTED
    assert bench.began[0][0].filter is None


async def test_several_prompts_are_generated_together(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"prompt": ["one", "two"], "max_tokens": 7}
    bench = Bench(monkeypatch, body, *chain_of("m"), api=COMPLETIONS, rules=True)
    bench.answers = ANSWERS
    assert await bench.run() == "m"
    ((request, context),) = bench.several
    assert (bench.began, request.prompts, request.filter) == ([], ("one", "two"), ANSWERS)
    assert context is bench.pipeline.context


@pytest.mark.parametrize("stream", [False, True])
async def test_the_next_model_answers_where_one_fails_and_is_paid(store_url: str, stream: bool) -> None:
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


async def test_the_last_ones_error_is_the_answer(store_url: str) -> None:
    async with upstream() as broken, upstream() as limited:
        broken.behaves = BROKEN
        limited.behaves = plain(b"{}", "429 Too Many Requests", retry_after="3")
        models = [chained(broken.url, "second"), plainly("second", limited.url)]
        async with gateway_of(store_url, more_models=models) as client:
            answer = await client.chat(model="first")
            assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")


async def test_a_model_that_takes_too_long_is_given_up(store_url: str) -> None:
    async def silent(caller: Caller, heard: Heard) -> None:
        await caller.gone()

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


async def test_a_budget_leaves_out_what_is_too_dear(store_url: str) -> None:
    async with upstream() as dear, upstream() as cheap:
        dear.behaves = cheap.behaves = plain(ANSWER)
        models = [
            chained(dear.url, "second", usd=0.01, price={"input": 1000.0, "output": 1000.0}),
            plainly("second", cheap.url, price={"input": 0.1, "output": 0.1}),
        ]
        async with gateway_of(store_url, more_models=models) as client:
            assert (await client.chat(model="first", max_tokens=1000)).json["model"] == "second"
            assert not dear.heard


async def test_the_cheapest_fallback_is_first_if_asked(store_url: str) -> None:
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


async def test_what_the_first_one_cannot_do_another_may(store_url: str) -> None:
    """Too long a prompt, and a feature that its engines lack."""

    async with upstream() as found:
        fields = {"fallbacks": {"models": ["second"]}, "context": 64}
        models = [plainly("second", found.url)]
        async with gateway_of(store_url, engine_of(), more_models=models, model_fields=fields) as client:
            long = [{"role": "user", "content": "word " * 200}]
            assert (await client.chat(messages=long)).json["model"] == "second"
            tools = [{"type": "custom", "custom": {"name": "f"}}]
            assert (await client.chat(tools=tools)).json["model"] == "second"
            assert (await client.chat(max_tokens=3)).json["model"] == MODEL


async def test_what_the_last_one_cannot_take_is_not_the_clients_fault(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The model that was asked for could, if it were there: clients that try again may be answered by it."""

    async with upstream() as away:
        away.behaves = plain(b"{}", "503 Service Unavailable")
        async with gateway_of(store_url, engine_of(), more_models=[chained(away.url, MODEL)]) as client:
            answer = await client.chat(model="first", tools=[{"type": "custom", "custom": {"name": "f"}}])
            assert (answer.status, answer.error["code"]) == (503, "replica_unavailable")
            assert f"model first falls back to {MODEL}: replica_unavailable status 503" in caplog.text


async def test_what_is_the_clients_fault_stays_so(store_url: str) -> None:
    async with upstream() as found:
        fields = {"fallbacks": {"models": ["second"]}}
        models = [plainly("second", found.url)]
        async with gateway_of(store_url, engine_of(), more_models=models, model_fields=fields) as client:
            assert (await client.chat(temperature=9)).status == 400
            assert (await client.chat(messages=[])).status == 400
        assert not found.heard


async def test_a_key_gets_no_model_that_it_may_not_use(store_url: str) -> None:
    async with upstream() as broken, upstream() as secret:
        broken.behaves = BROKEN
        models = [chained(broken.url, "second"), plainly("second", secret.url)]
        async with gateway_of(store_url, more_models=models, models=["first"]) as client:
            assert (await client.chat(model="first")).status == 502
            assert not secret.heard


async def test_an_engine_that_refuses_and_one_that_says_nothing(store_url: str) -> None:
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
