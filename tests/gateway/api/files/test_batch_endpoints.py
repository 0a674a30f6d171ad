"""`/v1/batches` through the whole application, with its runner."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.jobs.batches import batch_runner as runner
from gateway.jobs.batches import job_run, task_run
from gateway.jobs.batches.jobs import JobName
from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.telemetry.record_publisher import RecordPublisher
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from observability.record import RequestRecord
from replicas.engine import Engine
from tests.asgi import Client, gateway_of
from tests.harness import engine_of, gated_engine
from tests.loops import until
from tests.uploads import (
    BATCHES,
    FILES,
    batch_of,
    create,
    file_id,
    headers_of,
    once,
    over,
    request_line,
    request_lines,
    results,
    upload,
)

_HSET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(runner, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(task_run, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(job_run, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(task_run, "RETRY_SECONDS", 0.01)


Running = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def running(store_url: str, tmp_path: Path) -> Running:
    """Runs a test with a client of a gateway that keeps its files in `tmp_path`."""

    @contextlib.asynccontextmanager
    async def running(*engines: Engine, **options: Any) -> AsyncIterator[Client]:
        files = {"location": str(tmp_path / "files")}
        async with gateway_of(store_url, *(engines or (engine_of(),)), files=files, **options) as client:
            yield client

    return running


def work_left(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "files" / "work").rglob("*") if path.is_file()]


async def test_a_batch_from_its_upload_to_its_results(running: Running, tmp_path: Path) -> None:
    async with running() as client:
        lines = request_lines(150) + request_line("bad", max_tokens=0) + request_line("long", max_tokens=2**31)
        batch_id = await batch_of(client, lines, metadata={"who": "me"})
        batch = await over(client, batch_id)
        assert (batch["status"], batch["metadata"], batch["model"]) == ("completed", {"who": "me"}, "mixtral-8x7b")
        assert batch["request_counts"] == {"total": 152, "completed": 150, "failed": 2}
        good, bad = await results(client, batch["output_file_id"]), await results(client, batch["error_file_id"])
        assert set(good) == {f"line-{number}" for number in range(150)}
        for line in good.values():
            assert line["error"] is None
            assert line["response"]["status_code"] == 200
            assert line["response"]["body"]["usage"]["completion_tokens"] == 4
        assert set(bad) == {"bad", "long"}
        assert bad["bad"]["response"]["status_code"] == 400
        assert bad["bad"]["response"]["body"]["error"]["param"] == "max_tokens"
        assert batch["usage"]["output_tokens"] == 600
        shown = (await client.request("GET", f"{FILES}/{batch['output_file_id']}")).json
        assert (shown["purpose"], shown["filename"]) == ("batch_output", f"{batch_id}_output.jsonl")
        await client.gateway.services.files.sweep()
        assert work_left(tmp_path) == []


async def test_bad_input_fails_before_anything_runs(running: Running) -> None:
    async with running() as client:
        lines = request_line("a") + b"{\n" + request_line("a") + request_line("b", model="other", stream=True)
        batch = await over(client, await batch_of(client, lines))
        assert batch["status"] == "failed"
        assert [(each["line"], each["code"]) for each in batch["errors"]["data"]] == [
            (2, "invalid_json_line"),
            (3, "duplicate_custom_id"),
            (4, "invalid_request"),
            (4, "invalid_model"),
        ]
        assert batch["output_file_id"] is None
        # The file is nobody's any more.
        assert (await client.request("DELETE", f"{FILES}/{batch['input_file_id']}")).status == 200


async def test_a_model_that_the_key_may_not_use(running: Running) -> None:
    async with running(models=("other",)) as client:
        batch = await over(client, await batch_of(client, request_lines(1)))
        assert [each["code"] for each in batch["errors"]["data"]] == ["invalid_model"]


async def test_requests_that_are_refused(running: Running) -> None:
    async with running() as client:
        made = await file_id(client, b"x")
        data = (await upload(client, b"x", purpose="user_data")).json["id"]
        for fields, status, param in (
            ({"endpoint": "/v1/files"}, 400, "endpoint"),
            ({"endpoint": "/v1/images/generations"}, 400, "endpoint"),
            ({"completion_window": "1h"}, 400, "completion_window"),
            ({"input_file_id": "file-nothing"}, 404, "input_file_id"),
            ({"input_file_id": data}, 400, "input_file_id"),
            ({"metadata": {"a": "b" * 513}}, 400, "metadata"),
            ({"metadata": {str(n): "" for n in range(17)}}, 400, "metadata"),
            ({"output_expires_after": {"anchor": "created_at", "seconds": 5}}, 400, "output_expires_after.seconds"),
            ({"other": 1}, 400, "other"),
        ):
            answer = await create(client, made, **fields)
            assert answer.status == status, answer.body
            assert answer.error["param"] == param
        long_key = headers_of(client, content_type="application/json", idempotency_key="x" * 300)
        assert (await client.request("POST", BATCHES, {}, long_key)).error["param"] == "Idempotency-Key"
        assert (await client.request("GET", BATCHES)).json["data"] == []


async def test_a_repeated_post_makes_one_batch(running: Running) -> None:
    async with running() as client:
        made = await file_id(client, request_lines(1))
        headers = headers_of(client, content_type="application/json", idempotency_key="mine")
        body = {"input_file_id": made, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        first = (await client.request("POST", BATCHES, body, headers)).json["id"]
        assert (await client.request("POST", BATCHES, body, headers)).json["id"] == first
        other = await client.request("POST", BATCHES, {**body, "metadata": {"a": "b"}}, headers)
        assert (other.status, other.error["param"]) == (400, "Idempotency-Key")
        assert [each["id"] for each in (await client.request("GET", BATCHES)).json["data"]] == [first]
        await over(client, first)


async def test_cancelling_keeps_what_was_answered(running: Running) -> None:
    engine, gate = gated_engine(max_batch_size=8)

    async with running(engine) as client:
        batch_id = await batch_of(client, request_line("quick", max_tokens=1) + request_lines(20, max_tokens=50))
        await until(lambda: client.active)
        gate.let(4)
        await once(client, batch_id, lambda batch: batch["request_counts"]["completed"] == 1)
        used = await client.request("DELETE", f"{FILES}/{(await client.request('GET', FILES)).json['data'][0]['id']}")
        assert (used.status, used.error["code"]) == (409, "conflict")
        cancelling = await client.request("POST", f"{BATCHES}/{batch_id}/cancel")
        assert cancelling.json["status"] == "cancelling"
        batch = await over(client, batch_id)
        assert (batch["status"], batch["error_file_id"]) == ("cancelled", None)
        assert set(await results(client, batch["output_file_id"])) == {"quick"}
        again = await client.request("POST", f"{BATCHES}/{batch_id}/cancel")
        assert (again.status, again.error["param"]) == (400, "batch_id")
        gate.open()


async def test_a_batch_whose_day_is_over(running: Running) -> None:
    engine, gate = gated_engine(max_batch_size=8)

    async with running(engine) as client:
        batch_id = await batch_of(client, request_line("quick", max_tokens=1) + request_lines(99, max_tokens=50))
        await until(lambda: client.active)
        gate.let(4)
        await once(client, batch_id, lambda batch: batch["request_counts"]["completed"] == 1)
        store = client.gateway._store
        await store.run(_HSET, [JobName("default", batch_id).key("batch")], ["expires_at", "1.0"])
        batch = await over(client, batch_id)
        assert batch["status"] == "expired"
        assert batch["request_counts"] == {"total": 100, "completed": 1, "failed": 99}
        assert set(await results(client, batch["output_file_id"])) == {"quick"}
        late = await results(client, batch["error_file_id"])
        assert set(late) == {f"line-{number}" for number in range(99)}
        assert {line["error"]["code"] for line in late.values()} == {"batch_expired"}
        gate.open()


async def test_a_key_that_is_taken_back(running: Running) -> None:
    engine, gate = gated_engine(max_batch_size=8)

    async with running(engine) as client:
        store = client.gateway._store
        keys = KeyStore(store)
        own = client.key
        key, client.key = await keys.create(KeyRequest(name="short"))
        batch_id = await batch_of(client, request_lines(30, max_tokens=2))
        await until(lambda: client.active)
        await keys.revoke(key.key_id, actor="test")
        client.gateway._runner._callers._known.clear()
        gate.open()
        client.key = own
        batch = await over(client, batch_id)
        assert batch["request_counts"]["failed"] >= 20
        bad = await results(client, batch["error_file_id"])
        assert {line["response"]["body"]["error"]["code"] for line in bad.values()} == {"invalid_api_key"}


def watched(client: Client) -> list[RequestRecord]:
    """What the gateway is told of its requests from now on, once its record publisher is flushed."""
    seen: list[RequestRecord] = []

    class Sink:
        def take(self, records: Sequence[RequestRecord]) -> None:
            seen.extend(records)

        async def aclose(self) -> None:
            pass

    client.gateway.services.record_publisher = RecordPublisher([Sink()])
    return seen


async def test_limits_are_waited_for_and_a_line_that_was_refused_is_told_of_once(running: Running) -> None:
    async with running(key_limits={"concurrency": 2}) as client:
        seen = watched(client)
        batch = await over(client, await batch_of(client, request_lines(12)))
        assert batch["request_counts"] == {"total": 12, "completed": 12, "failed": 0}
        client.gateway.services.record_publisher.flush()
        assert [record.status for record in seen if record.endpoint == "chat"] == [200] * 12


async def test_ids_of_another_tenant_are_unknown(running: Running) -> None:
    async with running(tenant={"name": "acme"}) as client:
        made = await file_id(client, request_lines(1))
        batch_id = (await create(client, made)).json["id"]
        await over(client, batch_id)
        _, client.key = await KeyStore(client.gateway._store).create(KeyRequest(name="other"))
        assert (await create(client, made)).status == 404
        for method, path in (("GET", batch_id), ("POST", f"{batch_id}/cancel")):
            answer = await client.request(method, f"{BATCHES}/{path}")
            assert (answer.status, answer.error["code"]) == (404, "batch_not_found")


async def test_a_worker_that_ends_leaves_the_rest_to_others(store_url: str, tmp_path: Path) -> None:
    engine, gate = gated_engine(max_batch_size=8)
    files = {"location": str(tmp_path / "files")}

    async with gateway_of(store_url, engine, files=files) as client:
        batch_id = await batch_of(client, request_line("quick", max_tokens=1) + request_lines(70, max_tokens=30))
        await until(lambda: client.active)
        gate.let(4)
        await once(client, batch_id, lambda batch: batch["request_counts"]["completed"] == 1)
        gate.open()
        # The client waits for its own requests alone.
        await client.gateway._runner.aclose()
    async with gateway_of(store_url, engine_of(), files=files) as client:
        batch = await over(client, batch_id)
        assert batch["request_counts"] == {"total": 71, "completed": 71, "failed": 0}
        assert len(await results(client, batch["output_file_id"])) == 71


async def test_results_wait_for_a_disk_that_is_full(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.jobs.files.local_content import LocalSink

    real, full, refused = LocalSink.write, [False], [0]
    engine, gate = gated_engine()

    def write(self: LocalSink, data: bytes) -> None:
        if full[0]:
            refused[0] += 1
            raise OSError(28, "No space left on device")
        real(self, data)

    async with running(engine) as client:
        monkeypatch.setattr(LocalSink, "write", write)
        batch_id = await batch_of(client, request_lines(40))
        await once(client, batch_id, lambda batch: batch["status"] == "in_progress")
        full[0] = True
        gate.open()
        await until(lambda: refused[0] > 1)
        full[0] = False
        batch = await over(client, batch_id)
        assert batch["request_counts"]["completed"] == 40
        assert len(await results(client, batch["output_file_id"])) == 40


async def test_a_store_that_is_away_for_a_while(own_store: EmbeddedStore, tmp_path: Path) -> None:
    engine, gate = gated_engine(max_batch_size=8)
    files = {"location": str(tmp_path / "files")}

    async with gateway_of(own_store.url, engine, files=files) as client:
        batch_id = await batch_of(client, request_line("quick", max_tokens=1) + request_lines(40, max_tokens=3))
        await until(lambda: client.active)
        gate.let(3)
        await asyncio.to_thread(own_store.stop)
        gate.open()
        await asyncio.sleep(0.1)
        await asyncio.to_thread(own_store.start)
        await until(lambda: client.gateway.authenticator._fresh_until > 0)
        while (await client.request("GET", f"{BATCHES}/{batch_id}")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        batch = await over(client, batch_id)
        assert batch["request_counts"]["total"] == 41
        good, bad = await results(client, batch["output_file_id"]), await results(client, batch["error_file_id"])
        assert len({*good, *bad}) == len(good) + len(bad) == 41


async def test_the_gateway_keeps_the_record_of_a_batch_line(running: Running) -> None:
    async with running() as client:
        seen = watched(client)
        batch = await over(client, await batch_of(client, request_lines(3)))
        client.gateway.services.record_publisher.flush()
        lines = [record for record in seen if record.endpoint == "chat"]
        assert len(lines) == batch["request_counts"]["completed"] == 3
        assert all(record.tenant == "default" and record.completion_tokens == 4 for record in lines)
        assert msgspec.json.encode(lines[0])
