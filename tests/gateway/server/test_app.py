"""The application in this process, from ASGI to real replicas and a real store: statuses, headers, cancellation."""

import asyncio
import os
import re
from importlib.metadata import version
from pathlib import Path

import orjson
import pytest

import gateway.server.gateway
from gateway.server.worker_signals import BEGIN_DRAIN
from gateway.store.embedded import EmbeddedStore
from gateway.tenancy.auth.key_store import PREFIX
from observability.record import RequestRecord
from protos.types import Failure
from tests.asgi import CHAT, COMPLETIONS, HELLO, gateway_of
from tests.fakes import DiesAfter, DropsStream, RefusesWith, SilentEngine
from tests.harness import MODEL, engine_of, gated_engine, readable_corpus
from tests.loops import seconds_until, until

PATHS = [("POST", CHAT), ("POST", COMPLETIONS), ("GET", "/v1/models"), ("GET", f"/v1/models/{MODEL}")]


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize(
    "header", [None, b"", b"Bearer", b"Basic abc", b"Bearer short", b"Bearer " + PREFIX.encode() + b"A" * 43]
)
async def test_no_key_or_a_bad_one_is_401(store_url: str, method: str, path: str, header: bytes | None) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        headers = [] if header is None else [(b"authorization", header)]
        answer = await client.request(method, path, b"not even json", headers)
        assert answer.status == 401
        assert (answer.error["code"], answer.error["type"]) == ("invalid_api_key", "invalid_request_error")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_model_that_the_key_may_not_use_is_403_and_hidden(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), models=["llama-*"]) as client:
        for answer in (await client.chat(), await client.request("GET", f"/v1/models/{MODEL}")):
            assert (answer.status, answer.error["param"]) == (403, "model")
        assert (await client.request("GET", "/v1/models")).json == {"object": "list", "data": []}


async def test_models_are_listed_and_found(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        listed = (await client.request("GET", "/v1/models")).json
        found = (await client.request("GET", f"/v1/models/{MODEL}")).json
        assert listed == {"object": "list", "data": [found]}
        assert (found["id"], found["object"], found["max_model_len"]) == (MODEL, "model", 2000)
        assert isinstance(found["created"], int)
        for name in ("nope", "", "a/b", "x" * 5000):
            answer = await client.request("GET", f"/v1/models/{name}")
            assert (answer.status, answer.error["code"]) == (404, "model_not_found")
            assert len(answer.error["message"]) < 300
        answer = await client.chat(model="nope")
        assert (answer.status, answer.error["param"], answer.error["code"]) == (404, "model", "model_not_found")


@pytest.mark.parametrize(
    "path", ["/", "", "/v1", "/v1/chat", "/v1/chat/completions/", "/v2/models", "/v1/" + "x" * 9000]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_path_is_404(store_url: str, path: str, method: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.request(method, path)
        assert (answer.status, answer.error["code"]) == (404, "unknown_url")
        assert len(answer.error["message"]) < 300


@pytest.mark.parametrize(("right", "path"), [*PATHS, ("GET", "/healthz"), ("GET", "/readyz")])
async def test_a_wrong_method_is_405_and_names_the_right_one(store_url: str, right: str, path: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        allowed = {"GET": "GET, HEAD, OPTIONS", "POST": "POST, OPTIONS"}[right]
        for method in {"GET", "POST", "PUT", "DELETE", "BREW"} - {right}:
            answer = await client.request(method, path, headers=[])
            assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
            assert answer.headers["allow"] == allowed
            assert f"; use {right}." in answer.error["message"]


async def test_every_answer_has_a_request_id_of_its_own(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answers = [
            await client.chat(),
            await client.chat(stream=True),
            await client.chat(n=0),
            await client.request("GET", "/nope"),
            await client.request("PUT", CHAT),
            await client.request("GET", "/healthz"),
        ]
        ids = {answer.headers["x-request-id"] for answer in answers}
        assert len(ids) == len(answers)
        assert all(re.fullmatch(r"req_[0-9a-f]{24}", name) for name in ids)


async def test_a_long_body_is_413_and_never_read_whole(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), max_body_bytes=1024) as client:
        key = (b"authorization", b"Bearer " + client.key.encode())
        declared = await client.request("POST", CHAT, b"", [key, (b"content-length", b"1025")])
        call = client.call("POST", CHAT)
        for _ in range(2):
            call.put(b"x" * 600, more=True)
        await until(lambda: call.sent)
        call.disconnect()
        for answer in (declared, await call.answer()):
            assert (answer.status, answer.error["code"]) == (413, "request_too_large")
        assert (await client.chat(user="u" * 400)).status == 200


async def test_the_context_is_kept_with_both_figures(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        for answer, param in (
            (await client.chat(messages=[{"role": "user", "content": "word " * 3000}]), "messages"),
            (await client.complete(prompt="word " * 3000), "prompt"),
            (await client.complete(prompt=[5] * 2000), "prompt"),
        ):
            assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
            assert answer.error["param"] == param
            figures = [int(number) for number in re.findall(r"\d+", answer.error["message"])]
            assert figures[0] == 2000
            assert figures[1] >= 2000
        cut = await client.chat(max_tokens=5000)
        assert (cut.status, cut.headers["x-penstock-adjusted"]) == (200, "max_tokens=1995")


async def test_without_a_replica_it_is_503_and_says_when_to_try_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.server.gateway, "START_SECONDS", 0.01)

    async with gateway_of(store_url, addresses=["127.0.0.1:1"]) as client:
        for stream in (False, True):
            answer = await client.chat(stream=stream)
            assert (answer.status, answer.error["code"]) == (503, "replica_unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            assert "127.0.0.1" not in answer.body.decode()
        ready = await client.request("GET", "/readyz", headers=[])
        assert (ready.status, ready.json["models"]) == (503, {MODEL: {"replicas": 1, "ready": 0}})
        assert (await client.request("GET", "/healthz", headers=[])).status == 200


async def test_a_model_without_a_replica_need_not_take_the_others_out_of_service(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.server.gateway, "START_SECONDS", 0.01)
    pool = {"name": "pool", "engine": "simulated", "replicas": ["grpc://127.0.0.1:1"]}
    away = {"name": "away", "tokenizer": "mistral-tekken", "context": 2000, "pools": [pool]}
    for engines, status in (([engine_of()], 200), ([], 503)):
        async with gateway_of(store_url, *engines, more_models=[away]) as client:
            if engines:
                await client.proven(1)
            all_models = await client.request("GET", "/readyz", headers=[])
            assert all_models.status == 503
            some = await client.request("GET", "/readyz?models=any", headers=[])
            assert some.status == status
            assert some.json["problems"] == all_models.json["problems"]
            wrong = await client.request("GET", "/readyz?models=none", headers=[])
            assert (wrong.status, wrong.error["param"]) == (400, "models")


async def test_a_store_outage_is_503_and_never_401_and_passes(state_dir: Path) -> None:
    store = EmbeddedStore(state_dir)

    store.start()
    try:
        async with gateway_of(store.url, engine_of()) as client:
            await asyncio.to_thread(store.stop)
            answer = await client.chat()
            assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
            assert str(state_dir) not in answer.body.decode()
            assert (await client.request("GET", "/readyz", headers=[])).status == 503
            # What cannot be a key is still the client's mistake.
            assert (await client.request("POST", CHAT, headers=[])).status == 401
            store.start()
            assert (await client.chat()).status == 200
            assert (await client.request("GET", "/readyz", headers=[])).status == 200
    finally:
        store.stop()


async def test_beyond_max_in_flight_it_is_503_and_health_still_answers(store_url: str) -> None:
    async with gateway_of(store_url, SilentEngine(), max_in_flight=2) as client:
        calls = [client.call("POST", CHAT) for _ in range(2)]
        await until(lambda: client.active == 2)
        answer = await client.chat()
        assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await client.request("GET", "/healthz", headers=[])).status == 200
        for call in calls:
            call.disconnect()
            assert call.task is not None
            await call.task
        assert client.active == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_first_token_stops_the_engine(store_url: str, stream: bool) -> None:
    engine = SilentEngine()
    async with gateway_of(store_url, engine) as client:
        call = client.call("POST", CHAT)
        call.put(
            b'{"model":"%b","messages":[{"role":"user","content":"x"}],"stream":%b}'
            % (MODEL.encode(), b"true" if stream else b"false")
        )
        await until(lambda: engine.submitted)
        call.disconnect()
        assert await seconds_until(lambda: engine.cancelled) < 0.2
        assert call.task is not None
        await call.task


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
async def test_a_client_that_leaves_after_the_first_token_stops_the_engine(
    store_url: str, stream: bool, n: int
) -> None:
    engine, gate = gated_engine(corpus=readable_corpus())
    async with gateway_of(store_url, engine) as client:
        call = client.call("POST", CHAT)
        call.put(
            b'{"model":"%b","messages":[{"role":"user","content":"x"}],"stream":%b,"n":%d,"ignore_eos":true}'
            % (MODEL.encode(), b"true" if stream else b"false", n)
        )
        gate.let(6)
        fleet = client.gateway.models[MODEL].fleet
        await until(lambda: fleet.candidates()[0].load.running == n)
        if stream:
            await until(lambda: b'"content":"' in call.body)
        call.disconnect()
        assert call.task is not None
        await call.task
        gate.open()
        await until(lambda: fleet.candidates()[0].load.running == 0)
        assert fleet.candidates()[0].load.kv_blocks_used == 0
        assert b"[DONE]" not in call.body


async def test_a_request_out_of_time_is_504_before_the_first_byte(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.api.server.request_watchdog.CHECK_SECONDS", 0.005)
    monkeypatch.setattr("gateway.api.server.request_watchdog.ROUND_SECONDS", 0.01)

    engine = SilentEngine()
    async with gateway_of(store_url, engine) as client:
        (connection,) = client.gateway.models[MODEL].fleet._connections.values()
        for stream in (False, True):
            asking = asyncio.create_task(client.chat(stream=stream))
            await until(lambda: connection.in_flight)
            client.out_of_time()
            answer = await asking
            assert (answer.status, answer.error["code"]) == (504, "timeout")
        await until(lambda: len(engine.cancelled) == 2)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_engine_is_a_status_and_leaks_nothing(store_url: str, stream: bool) -> None:
    refusing = RefusesWith(Failure("unsupported_parameter", "no min_p here", "min_p"))
    async with gateway_of(store_url, refusing) as client:
        answer = await client.chat(stream=stream)
        assert (answer.status, answer.error["param"]) == (400, "min_p")
    async with gateway_of(store_url, RefusesWith(Failure("engine_error", "CUDA at /opt/x"))) as client:
        answer = await client.chat(stream=stream)
        assert (answer.status, answer.error["code"]) == (502, "replica_failed")
        assert "CUDA" not in answer.body.decode()


async def test_a_replica_that_breaks_mid_stream_ends_it_with_an_error_and_no_done(store_url: str) -> None:
    async with DropsStream(tokens=5).listening() as address, gateway_of(store_url, addresses=[address]) as client:
        answer = await client.chat(stream=True)
        await until(lambda: client.gateway.models[MODEL].fleet.ready)
        whole = await client.chat()
    async with gateway_of(store_url, DiesAfter(3)) as client:
        died = await client.chat(stream=True)
    for broken in (answer, died):
        assert broken.status == 200
        assert set(broken.events[-1]) == {"error"}
        assert "[DONE]" not in broken.events
        assert "10.0.0.7" not in broken.body.decode()
        assert "secret" not in broken.body.decode()
    assert whole.status == 503
    assert whole.error["code"] == "replica_unavailable"


async def test_a_defect_of_ours_is_an_error_object_without_its_text(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("/etc/secret")

    async with gateway_of(store_url, engine_of()) as client:
        monkeypatch.setattr("gateway.inference.prepare.encode_prompt", broken)
        answer = await client.chat()
        assert (answer.status, answer.error["code"]) == (500, "internal_error")
        assert "secret" not in answer.body.decode()
        assert answer.headers["x-request-id"] in caplog.text


async def test_messages_that_the_template_refuses_are_400(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        for messages in (
            [{"role": "tool", "content": "x"}],
            [{"role": "user", "content": None}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            [{"role": "assistant", "tool_calls": [{}]}],
            [{"role": "user", "content": [{"type": "text"}]}],
        ):
            answer = await client.chat(messages=messages)
            assert answer.status == 400
            assert answer.error["param"].startswith("messages[0].")
        for ids in ([10**9], [-1], [2**63]):
            answer = await client.complete(prompt=ids)
            assert (answer.status, answer.error["param"].split("[")[0]) == (400, "prompt")
        for field in ({"logit_bias": {"999999": 1}}, {"stop_token_ids": [999_999]}):
            answer = await client.chat(**field)
            assert (answer.status, answer.error["param"]) == (400, next(iter(field)))
        assert (await client.chat(top_logprobs=3)).error["param"] == "top_logprobs"
        assert (await client.chat(messages=[*HELLO, *HELLO])).status in (200, 400)


@pytest.mark.parametrize(
    "own", ["a", "req_123", "0f8fad5b-d9cb-469f-a165-70867728950e", "Root=1-67:2/x@y+z~", "x" * 128]
)
async def test_a_clients_own_id_is_used(store_url: str, own: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        key = (b"authorization", b"Bearer " + client.key.encode())
        body = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
        for sent in (body, {**body, "stream": True}, {**body, "n": 0}):
            answer = await client.request("POST", CHAT, sent, [key, (b"x-request-id", own.encode())])
            assert answer.headers["x-request-id"] == own


@pytest.mark.parametrize("own", [b"", b"x" * 129, b"a b", b"a\r\nb: c", b"\xff", b"a\x00", b'"a"', b"a,b"])
async def test_a_strange_one_is_not(store_url: str, own: bytes) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.request("GET", "/healthz", b"", [(b"x-request-id", own)])
        assert answer.headers["x-request-id"].startswith("req_")


async def test_two_requests_of_one_id_are_told_apart_inside(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-request-id", b"same")]
        body = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
        answers = await asyncio.gather(*(client.request("POST", CHAT, body, headers) for _ in range(3)))
        assert {answer.headers["x-request-id"] for answer in answers} == {"same"}
        assert len({answer.json["id"] for answer in answers}) == 3


@pytest.mark.parametrize(
    ("path", "methods"),
    [(CHAT, "POST, OPTIONS"), ("/v1/models", "GET, HEAD, OPTIONS"), ("/healthz", "GET, HEAD, OPTIONS")],
)
async def test_options_names_the_methods(store_url: str, path: str, methods: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.request("OPTIONS", path, headers=[])
        assert (answer.status, answer.body, answer.headers["allow"]) == (200, b"", methods)
        assert (await client.request("OPTIONS", "/nothing", headers=[])).status == 404


async def test_head_is_get_without_the_body(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        for path, status in (("/v1/models", 200), ("/healthz", 200), (CHAT, 405), ("/nope", 404)):
            answer = await client.request("HEAD", path)
            assert (answer.status, answer.body) == (status, b"")
            assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(("trusted", "client"), [([], "127.0.0.1"), (["127.0.0.0/8"], "203.0.113.7")])
async def test_who_asked_is_recorded_behind_a_trusted_proxy(
    store_url: str, trusted: list[str], client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_of(store_url, engine_of(), trusted_proxies=trusted) as caller:
        records: list[RequestRecord] = []
        monkeypatch.setattr(caller.gateway.services.record_publisher, "ended", records.append)
        bearer = (b"authorization", b"Bearer " + caller.key.encode())
        headers = [bearer, (b"x-forwarded-for", b"6.6.6.6, 203.0.113.7"), (b"x-real-ip", b"6.6.6.6")]
        for path in ("/v1/models", f"/v1/models/{MODEL}", "/v1/nothing"):
            await caller.request("GET", path, headers=headers)
        assert [record.client for record in records] == [client] * 3


async def test_a_worker_that_drains_is_not_ready_and_ends_connections(store_url: str) -> None:
    engine, gate = gated_engine()
    async with gateway_of(store_url, engine) as client:
        waiting = client.call("POST", CHAT)
        waiting.put(orjson.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 2}))
        await until(lambda: client.active)
        os.kill(os.getpid(), BEGIN_DRAIN)
        await until(lambda: client.gateway.draining)
        ready = await client.request("GET", "/readyz", headers=[])
        assert (ready.status, ready.headers["connection"]) == (503, "close")
        assert (await client.request("GET", "/v1/models")).headers["connection"] == "close"
        gate.open()
        answer = await waiting.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("path", ["/health", "/ping", "/version"])
async def test_clients_of_other_servers_ask_without_a_key(store_url: str, path: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.request("GET", path, headers=[])
        assert answer.status == 200
        assert answer.json == {"version": version("penstock")} if path == "/version" else {"status": "ok"}


async def test_paths_of_other_servers_are_answered_as_ours(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        tokens = (await client.request("POST", "/tokenize", {"model": MODEL, "prompt": "Hello"})).json["tokens"]
        found = await client.request("POST", "/detokenize", {"model": MODEL, "tokens": tokens[1:]})
        assert found.json["prompt"] == "Hello"
        for path in ("/rerank", "/v2/rerank", "/score"):
            assert (await client.request("POST", path, {"model": "none", "query": "a", "documents": ["b"]})).status in (
                400,
                404,
            )
