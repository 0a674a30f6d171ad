"""Looks over the admin API, with a store and without."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.admin.admin_parts import AdminParts
from gateway.admin.live import live_reader as module
from gateway.admin.live.counters import WorkerCounts
from gateway.admin.live.feed import MAX_VIEWERS
from gateway.admin.live.live_reader import COUNTS_UNREADABLE, NO_COUNTS, STORE_AWAY
from gateway.admin.live.view import Live
from gateway.store.store_client import Store
from routing.health.replica_status import ReplicaStatus, State
from tests.gateway.admin.bench import Bench, bench_of
from tests.gateway.admin.live.samples import totals
from tests.gateway.reshaping.shapes import config_of as shapes_config
from tests.loops import until

PATH = "/admin/live"
STATUS = ReplicaStatus("p/0", "p", State.EJECTED, "", 3, 1, 5, 10, 2, 0.0, 4.0)


class Workers:
    """What workers would have written, ten requests a second; or what reading it raises."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.counted = WorkerCounts(replicas={"m": [STATUS]})

    def __call__(self) -> WorkerCounts:
        if self.problem is not None:
            raise self.problem
        now = time.monotonic()
        return replace(self.counted, totals=totals(now, now))


def watch(bench: Bench, workers: Workers) -> None:
    """Have the feed look at these workers, and often."""
    look: Any = bench.live._read
    look._read = workers
    bench.live._seconds = 0.1


async def test_one_look_has_rates(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant("acme", tier="gold", limits={"rpm": 10, "budget": {"usd": 5}})
        watch(bench, Workers())
        live = await bench.get(PATH, once="1")
        assert live["problems"] == []
        assert live["seconds"] >= 0
        if not live["seconds"]:
            live = await bench.get(PATH, once="1")
        assert [model["name"] for model in live["models"]] == ["m", "org/m2"]
        assert live["models"][0]["pools"][0]["replicas"][0]["state"] == "unknown", "the store has no report"
        acme = next(tenant for tenant in live["tenants"] if tenant["name"] == "acme")
        assert (acme["tier"], acme["scopes"][0]["limits"][0]["limit"]) == ("gold", 10)
        assert acme["scopes"][0]["budget"]["limit_usd"] == 5


async def test_rates_come_with_time(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        watch(bench, Workers())
        with bench.live.viewer():
            number = 0
            while True:
                look = await bench.live.after(number)
                number = look.number
                assert isinstance(look.value, Live)
                if look.value.seconds:
                    break
        assert look.value.headline.requests_per_second is not None
        assert abs(look.value.headline.requests_per_second - 10) < 0.5


async def test_before_any_worker_has_written(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        live = await bench.get(PATH, once="1")
        assert live["problems"] == [NO_COUNTS]
        assert live["headline"]["in_flight"] is None
        assert [tenant["name"] for tenant in live["tenants"]] == ["default"]
        assert len(live["models"]) == 2


async def test_files_that_cannot_be_read(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        workers = Workers()
        workers.problem = PermissionError("/secret/place")
        watch(bench, workers)
        assert (await bench.get(PATH, once="1"))["problems"] == [COUNTS_UNREADABLE]


async def test_without_the_store_the_fleet_is_what_workers_say() -> None:
    async with bench_of("unix:///nonexistent/store.sock", timeout=0.2) as bench:
        watch(bench, Workers())
        live = await bench.get(PATH, once="1")
        assert live["problems"] == [STORE_AWAY]
        (row,) = live["models"][0]["pools"][0]["replicas"]
        assert (row["state"], row["running"], row["kv_blocks_total"], row["breaker_seconds"]) == (
            "ejected",
            3,
            10,
            4.0,
        )
        (other,) = live["models"][1]["pools"][0]["replicas"]
        assert other["state"] == "unknown"
        assert [tenant["scopes"] for tenant in live["tenants"]] == [None, None]
        assert live["headline"]["in_flight"] == 7


async def test_shapes_are_told_where_a_model_has_some(store_url: str) -> None:
    parts = AdminParts(shapes_config(), Store(store_url, timeout=10.0), "key", None)
    shown = await parts._reader()
    assert shown.shapes is not None
    assert [one.model for one in shown.shapes.models] == ["m"]
    assert (shown.shapes.controller, shown.shapes.age_seconds) == ("", None)
    await parts._store.aclose()


async def test_without_the_store_no_shapes_are_told() -> None:
    parts = AdminParts(shapes_config(), Store("unix:///nonexistent/store.sock", timeout=0.2), "key", None)
    shown = await parts._reader()
    assert (shown.shapes, STORE_AWAY in shown.problems) == (None, True)
    await parts._store.aclose()


async def test_a_stream_and_its_end(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        watch(bench, Workers())
        call = bench.call("GET", PATH)
        call.put(b"")
        await until(lambda: call.body.count(b"event: live\n") >= 3)
        start = call.sent[0]
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        assert start["status"] == 200
        assert (headers["content-type"], headers["cache-control"]) == ("text/event-stream", "no-store")
        assert "content-length" not in headers
        data = call.body.split(b"\n\n")[1].removeprefix(b"event: live\ndata: ")
        assert msgspec.json.decode(data, type=Live).headline.in_flight == 7
        await bench.live.aclose()
        await call.answer()
        assert (await bench.ask("GET", PATH)).error["code"] == "server_is_overloaded"


async def test_viewers_that_leave_and_too_many(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        watch(bench, Workers())
        calls = [bench.call("GET", PATH) for _ in range(MAX_VIEWERS)]
        for call in calls:
            call.put(b"")
        await until(lambda: all(call.body for call in calls))
        answer = await bench.ask("GET", PATH)
        assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
        assert "16 viewers" in answer.error["message"]
        for call in calls:
            call.disconnect()
        await until(lambda: bench.live.viewers == 0)
        for call in calls:
            assert call.task is not None
            await call.task
        assert (await bench.ask("GET", PATH, query="once=1")).status == 200


async def test_parameters(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(400, "once", "GET", PATH, query="once=2")
        await bench.refused(400, "often", "GET", PATH, query="often=1")
        assert (await bench.ask("GET", PATH, headers=[])).status == 401
        assert (await bench.ask("HEAD", PATH)).status == 200


async def test_a_store_that_hangs_holds_no_look_up_for_long(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STORE_SECONDS", 0.2)

    async with bench_of(store_url) as bench:

        async def hang(*_: object) -> Any:
            await asyncio.Event().wait()

        look: Any = bench.live._read
        watch(bench, Workers())
        look._replicas.replicas = hang
        live = await bench.get(PATH, once="1")
        assert live["problems"] == [STORE_AWAY]
