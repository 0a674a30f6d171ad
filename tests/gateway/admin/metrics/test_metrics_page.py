"""The page of all metrics: from workers, from the store, and without either."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.metrics.export import MetricsData

from gateway.admin.metrics import metrics_page as metrics
from gateway.admin.metrics.metrics_page import MetricsPage
from gateway.config.observability.metrics import MetricsOtlp
from gateway.config.settings import Config
from gateway.store.store_client import Store
from gateway.telemetry.metrics_publisher import FOLDER
from gateway.tenancy.tenants.tenant_registry import Registry
from observability.metrics import otlp
from observability.metrics.metrics_folder import OwnLock, replace
from observability.metrics.otlp import Gathered
from observability.metrics.snapshot import Numbers
from protos.errors import StoreUnavailable
from tests.loops import until
from tests.observability.metrics.parsing import parsed
from tests.observability.metrics.records import numbers_of, placed, record, sink_of, snapshot_of


def config_at(folder: Path, **fields: Any) -> Config:
    pool = {"name": "wide", "engine": "simulated", "replicas": 1}
    model = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}
    tenants = [{"name": "acme", "limits": {"rpm": 7}}]
    return msgspec.convert({"state": str(folder), "models": [model], "tenants": tenants, **fields}, Config)


def written(state: Path, parent: int) -> OwnLock:
    """A worker that lives and has had a request."""
    sink = sink_of()
    sink.take([record()])
    lock = OwnLock(state / FOLDER / "w.lock")
    lock.hold()
    snapshot = snapshot_of(numbers_of(placed(sink)), parent=parent)
    replace(state / FOLDER / "w.metrics", msgspec.msgpack.encode(snapshot))
    return lock


class Away:
    """A store that does not answer, or is slow about it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        await asyncio.sleep(self.seconds)
        raise StoreUnavailable


def page_of(config: Config, store: Any) -> MetricsPage:
    return MetricsPage(config, Registry(store, config), store)


async def test_all_at_once(tmp_path: Path, store_url: str) -> None:
    lock = written(tmp_path, os.getpid())
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").write_text(f"{os.getpid()}\n")
    store = Store(store_url, timeout=10.0)
    page = page_of(config_at(tmp_path), store)
    one, other = await asyncio.gather(page.text(), page.text())
    assert one is other, "readers at one time share a page"
    kinds, series = parsed(one.decode())
    assert series["penstock_store_up", frozenset()] == 1
    acme = {"tenant": "acme", "scope": "tenant", "limit": "rpm"}
    assert series["penstock_limit", frozenset(acme.items())] == 7
    assert series["penstock_workers", frozenset()] == 1
    assert kinds["gen_ai_server_request_duration_seconds"] == "histogram"
    processes = {dict(labels)["process"] for name, labels in series if name == "penstock_process_resident_bytes"}
    assert processes == {"admin", "supervisor", "store"}
    assert await page.text() is not one
    lock.release()
    await store.aclose()


@pytest.mark.parametrize("slow", [0.0, 60.0])
async def test_without_the_store_all_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: float
) -> None:
    monkeypatch.setattr(metrics, "STORE_SECONDS", 0.05)

    lock = written(tmp_path, 1)
    _, series = parsed((await page_of(config_at(tmp_path), Away(slow)).text()).decode())
    lock.release()
    assert series["penstock_store_up", frozenset()] == 0
    assert series["penstock_workers", frozenset()] == 1
    assert not any(name.startswith("penstock_limit") for name, _ in series)


async def test_without_workers(tmp_path: Path) -> None:
    kinds, _ = parsed((await page_of(config_at(tmp_path / "none"), Away()).text()).decode())
    assert set(kinds) == {
        "penstock_process_cpu_seconds_total",
        "penstock_process_resident_bytes",
        "penstock_store_up",
    }
    assert not (tmp_path / "none").exists()


async def test_one_reader_that_leaves_takes_nothing_from_another(tmp_path: Path) -> None:
    page = page_of(config_at(tmp_path), Away())
    leaving, staying = asyncio.create_task(page.text()), asyncio.create_task(page.text())
    await asyncio.sleep(0)
    leaving.cancel()
    assert b"penstock_store_up 0" in await staying
    assert leaving.cancelled()


async def test_what_is_exported_is_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[set[str]] = []

    def exported(gathered: Gathered, now_ns: int) -> MetricsData:
        sent.append({family.name for family in gathered.families})
        raise TimeoutError(now_ns)

    monkeypatch.setattr(otlp, "metrics_data", exported)

    page = page_of(config_at(tmp_path), Away())
    page.start_export(MetricsOtlp(endpoint="http://127.0.0.1:9", interval_seconds=0.01))
    await until(lambda: len(sent) > 1)
    assert {"penstock_store_up", "penstock_telemetry_dropped_total"} <= sent[1]
    await page.aclose()
    await page.aclose()


async def test_nothing_is_exposed_that_is_not_declared(tmp_path: Path) -> None:
    numbers = Numbers({"penstock_else_total": {(): 1}, "penstock_queue_depth": {("m", "more"): 1}})
    lock = OwnLock(tmp_path / FOLDER / "w.lock")
    lock.hold()
    replace(tmp_path / FOLDER / "w.metrics", msgspec.msgpack.encode(snapshot_of(numbers)))

    text = (await page_of(config_at(tmp_path), Away()).text()).decode()
    assert "else_total" not in text
    assert "queue_depth" not in text
    lock.release()
