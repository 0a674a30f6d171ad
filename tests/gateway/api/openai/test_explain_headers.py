"""Why a request goes where it goes, over HTTP: beside the answer, instead of it, and in the log."""

import json
import logging
from typing import Any

import msgspec
import pytest

from gateway.tenancy.limits.usage_reading import tenant_state
from protos.types import Failure, Finish, FinishReason, Submit
from replicas.engine import Delta
from routing.contracts.explained_policy import NO_ROOM, TRIED, UNSENT
from routing.contracts.explanation import BRIEF_BYTES, RouteExplanation
from routing.health.probe import PROBE
from tests.asgi import CHAT, COMPLETIONS, Answer, Client, gateway_of
from tests.fakes import RefusesWith, SilentEngine
from tests.harness import MODEL, engine_of
from tests.loops import until
from tests.stores import is_idle

ROUTE = "x-penstock-route"
SECRET = "swordfish"
LEAST_LOAD = {"policy": "least_load"}


async def ask(client: Client, value: bytes | None, path: str = CHAT, **fields: Any) -> Answer:
    headers = [(b"authorization", b"Bearer " + client.key.encode())]
    if value is not None:
        headers.append((b"x-penstock-explain", value))
    prompt = {"messages": [{"role": "user", "content": f"{SECRET} please"}]} if path == CHAT else {"prompt": SECRET}
    return await client.request("POST", path, {"model": MODEL, "max_tokens": 20, **prompt, **fields}, headers)


async def dry(client: Client, **fields: Any) -> RouteExplanation:
    answer = await ask(client, b"dry-run", **fields)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    assert ROUTE not in answer.headers
    assert SECRET.encode() not in answer.body
    explanation = msgspec.json.decode(answer.body, type=RouteExplanation)
    assert explanation.request_id == answer.headers["x-request-id"]
    return explanation


def route_of(answer: Answer) -> dict[str, Any]:
    line = answer.headers[ROUTE]
    assert len(line) <= BRIEF_BYTES
    route: dict[str, Any] = json.loads(line)
    return route


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_tells_its_route(store_url: str, path: str, stream: bool) -> None:
    async with gateway_of(store_url, engine_of(), engine_of(), explain=True, routing=LEAST_LOAD) as client:
        await client.proven(2)
        answer = await ask(client, b"1", path, stream=stream)
        assert answer.status == 200
        route = route_of(answer)
        assert (route["policy"], route["reason"]) == ("least_load", "least loaded")
        assert route["replica"] in ("pool/0", "pool/1")
        assert sorted(candidate["replica"] for candidate in route["candidates"]) == ["pool/0", "pool/1"]
        assert all(candidate["value"] == 0.0 for candidate in route["candidates"])
        assert route["prompt_tokens"] > 1
        assert "earlier" not in route
        if not stream:
            assert answer.json["usage"]["prompt_tokens"] == route["prompt_tokens"]
        assert ROUTE not in (await ask(client, None, path, stream=stream)).headers


async def test_a_key_without_the_permission_is_refused(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        for value in (b"1", b"dry-run", b"nonsense", b""):
            answer = await ask(client, value)
            assert (answer.status, answer.error["code"]) == (403, "explain_not_allowed")
            assert answer.error["param"] == "x-penstock-explain"
            assert ROUTE not in answer.headers
        assert (await ask(client, None)).status == 200


@pytest.mark.parametrize("value", [b"", b"0", b"true", b"dry-run ", b"DRY-RUN", b"dry_run", b"\xff", b"1, 1"])
async def test_other_values_are_refused(store_url: str, value: bytes) -> None:
    async with gateway_of(store_url, engine_of(), explain=True) as client:
        answer = await ask(client, value)
        assert (answer.status, answer.error["param"]) == (400, "x-penstock-explain")
        assert "expected 1 or dry-run" in answer.error["message"]


async def test_a_dry_run_tells_all_and_leaves_no_trace(store_url: str) -> None:
    engine = SilentEngine()
    tenant = {"name": "acme", "limits": {"rpm": 5, "tpm": 100_000, "concurrency": 1, "budget": {"usd": 5.0}}}
    price = {"input": 1000.0, "cached_input": 1000.0, "output": 2000.0}
    async with gateway_of(store_url, engine, explain=True, tenant=tenant, price=price, routing=LEAST_LOAD) as client:
        for _ in range(8):
            explanation = await dry(client)
            assert (explanation.replica, explanation.reason) == ("pool/0", "least loaded")
            assert (explanation.model, explanation.max_tokens, explanation.waiting) == (MODEL, 20, 0)
            assert explanation.candidates[0].parts
            await until(lambda: is_idle(client.gateway._limits_batcher))
        state = await tenant_state(client.gateway._store, "acme", ["tenant"], [("tenant", "month")])
        scope = state.scopes[0]
        assert (scope.in_flight, scope.requests, scope.input_tokens, scope.output_tokens) == (0, 0, 0, 0)
        assert state.budgets[0].spent_usd == state.budgets[0].reserved_usd == 0.0
        assert [request for request in engine.submitted.values() if request.request_id != PROBE.request_id] == []
        admission_queue = client.gateway.models[MODEL].admission_queue
        assert admission_queue.active_here() == []
        assert admission_queue._promised == {}


async def test_a_dry_run_is_refused_as_the_request_would_be(store_url: str) -> None:
    tenant = {"name": "acme", "limits": {"max_input_tokens": 20, "tpm": 40}}
    async with gateway_of(store_url, engine_of(), explain=True, tenant=tenant) as client:
        long = [{"role": "user", "content": "word " * 50}]
        for fields, code in (
            ({"messages": long}, "token_limit_exceeded"),
            ({"model": "nope"}, "model_not_found"),
            ({"max_tokens": -2}, None),
        ):
            answer = await ask(client, b"dry-run", **fields)
            assert answer.error["code"] == code
            assert 400 <= answer.status < 500


async def test_what_is_full_is_told(store_url: str) -> None:
    engines = SilentEngine(), SilentEngine()
    async with gateway_of(store_url, *engines, explain=True, routing=LEAST_LOAD) as client:
        await until(lambda: client.gateway.models[MODEL].fleet.ready_replicas == 2)
        # More than 8 slots each, of which the watermark leaves some free.
        running = [client.call("POST", CHAT) for _ in range(20)]
        for call in running:
            call.put(b'{"model": "%s", "messages": [{"role": "user", "content": "x"}]}' % MODEL.encode())
        await until(lambda: client.gateway.models[MODEL].admission_queue.waiting >= 4)
        explanation = await dry(client)
        assert (explanation.replica, explanation.reason) == (None, NO_ROOM)
        assert explanation.waiting >= 4
        assert [(seen.replica, seen.excluded) for seen in explanation.candidates] == [
            ("pool/0", "no free slots"),
            ("pool/1", "no free slots"),
        ]
        for call in running:
            call.disconnect()


class FailsRequests(RefusesWith):
    """Answers probes, and fails on everything else."""

    def submit(self, handle: int, request: Submit) -> None:
        if request.request_id == PROBE.request_id:
            self.say(Delta(handle, 0, [7]), finishes=[(handle, 0, Finish(FinishReason.LENGTH, 1, 0, 1))])
        else:
            super().submit(handle, request)


async def test_a_retry_is_told(store_url: str) -> None:
    engines = engine_of(), FailsRequests(Failure("engine_error", "CUDA error"))
    async with gateway_of(store_url, *engines, explain=True, routing={"policy": "round_robin"}) as client:
        await client.proven(2)
        routes = [route_of(await ask(client, b"1")) for _ in range(2)]
        route = next(route for route in routes if "earlier" in route)
        assert (route["replica"], route["earlier"]) == ("pool/0", [{"replica": "pool/1"}])
        assert {"replica": "pool/1", "excluded": TRIED} in route["candidates"]


async def test_without_a_replica_the_error_says_why(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.gateway.START_SECONDS", 0.05)

    async with gateway_of(store_url, addresses=["unix:///tmp/penstock-nobody.sock"], explain=True) as client:
        answer = await ask(client, b"1")
        assert (answer.status, answer.error["code"]) == (503, "replica_unavailable")
        route = route_of(answer)
        assert (route["replica"], route["reason"]) == (None, UNSENT)
        assert route["candidates"] == [{"replica": "pool/0", "excluded": "connecting"}]
        explanation = await dry(client)
        assert (explanation.replica, explanation.reason) == (None, NO_ROOM)
        assert explanation.candidates[0].excluded == "connecting"


async def test_each_explained_request_is_one_line_in_the_log(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway.api.openai.explain_headers")

    async with gateway_of(store_url, engine_of(), explain=True, routing=LEAST_LOAD) as client:
        answers = [await ask(client, b"1"), await ask(client, b"1", stream=True), await ask(client, b"dry-run")]
        await ask(client, None)
        await ask(client, b"1", max_tokens=0)
        lines = [
            record.getMessage() for record in caplog.records if record.name == "gateway.api.openai.explain_headers"
        ]
        assert len(lines) == 3
        for answer, line, what in zip(answers, lines, ("route", "route", "dry run"), strict=True):
            start = f"request {answer.headers['x-request-id']}: model {MODEL}, {what} "
            assert line.startswith(start)
            told = json.loads(line.removeprefix(start))
            assert told["replica"] == "pool/0"
            if what == "route":
                assert told == route_of(answer)
        assert SECRET not in caplog.text
