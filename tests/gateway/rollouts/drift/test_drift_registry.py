"""Drift over a real store: counted by workers, kept over restarts, compared by whoever looks."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from gateway.admin.metrics.drift_metrics import drift_families
from gateway.config.settings import Config
from gateway.rollouts.drift.drift_registry import DriftRegistry
from gateway.rollouts.drift.drift_reporter import DriftReporter
from gateway.rollouts.drift.stored_slices import begin_reference, subjects
from gateway.rollouts.drift.subject import Subject, slice_seconds
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.tenants.tenant_registry import Registry
from observability.record import RequestRecord
from protos.errors import ReplicaNotFound

DAYS = 4
SECONDS = slice_seconds(Subject("m", "input", "", DAYS).layout)
_FILL = Script("for i = 2, #KEYS do redis.call('HSET', KEYS[i], unpack(ARGV)) end return 1")


def config_of(**drift: Any) -> Config:
    pool = {"name": "p", "engine": "simulated", "replicas": 1}
    model = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool], "drift": {"reference_days": DAYS} | drift}
    plain = {"name": "plain", "tokenizer": "t", "context": 9, "pools": [pool]}
    return msgspec.convert({"models": [model, plain], "state": "/nonexistent/state"}, Config)


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[Store]:
    store = Store(url, timeout=10.0)
    try:
        yield store
    finally:
        await store.aclose()


def record(**fields: Any) -> RequestRecord:
    known: dict[str, Any] = {
        "model": "m",
        "sent": 1.0,
        "prompt_tokens": 600,
        "completion_tokens": 200,
        "finish": "stop",
        "version": "v1",
    }
    return RequestRecord("1", "chat", 0.0, 0.0, **(known | fields))


async def fill(store: Store, subject: Subject, numbers: range, **counts: int) -> None:
    """Have every one of these slices the counts of `FEATURE_BIN`."""
    fields = [text for name, count in counts.items() for text in (name.replace("__", ":"), str(count))]
    for start in range(numbers.start, numbers.stop, 200):
        keys = [subject.slice_key(number) for number in range(start, min(start + 200, numbers.stop))]
        await store.run(_FILL, ["penstock:{drift}:subjects", *keys], fields)


async def test_what_workers_count_is_compared_and_survives_a_restart(store_url: str) -> None:
    config, sent = config_of(), Subject("m", "input", "", DAYS)
    async with store_at(store_url) as store:
        now = int(await store.now() / SECONDS)
        first = now - 5 * 96
        await begin_reference(store, sent, first - 1)
        await fill(store, sent, range(first, first + DAYS * 96), language__en=60, language__de=40, tools__0=100)
        await fill(store, sent, range(now - 24, now), language__en=20, language__de=80, tools__0=100)
        (model,) = (await DriftRegistry(store, config).view()).models
        assert model.drifted
        (subject,) = model.subjects
        assert (subject.state, subject.since) == ("compared", first * SECONDS)
        by_name = {one.of: one for one in subject.histograms}
        assert by_name["language"].change == "de 40.0 -> 80.0 %, en 60.0 -> 20.0 %"
        assert [one.hours for one in by_name["language"].windows] == [1, 6]
        assert all(one.drifted and one.distance > one.threshold for one in by_name["language"].windows)
        assert not by_name["tools"].drifted
        assert by_name["prompt_tokens"].windows == []

        registry = DriftRegistry(store, config)
        view = await registry.view("m")
        assert view.models == [model], "another process, as after a restart, finds the same"
        metrics = {
            (family.name, *labels.values()): value
            for family in drift_families(view)
            for labels, value in family.samples
        }
        assert metrics["penstock_drifted", "m", "-", "language"] == 1
        assert metrics["penstock_drifted", "m", "-", "tools"] == 0
        assert metrics["penstock_drift_compared", "m", "-", "input"] == 1
        assert {type(value) for value in metrics.values()} == {float}, "Prometheus reads no True"
        distance = metrics["penstock_drift_distance", "m", "-", "language", "6h"]
        assert distance > metrics["penstock_drift_threshold", "m", "-", "language", "6h"]

        (model,) = (await registry.reset("m", "admin-api:test")).models
        assert model.subjects[0].state == "gathering"
        assert not model.drifted
        (entry,) = [one for one in await Registry(store, config).audit(limit=5) if one.action == "drift.reset"]
        assert (entry.actor, entry.subject) == ("admin-api:test", "m")


async def test_workers_add_up_and_a_reference_is_gathered(store_url: str) -> None:
    async with store_at(store_url) as store:
        workers = [DriftReporter(store, config_of()) for _ in range(2)]
        for worker in workers:
            worker.counter.take([record(language="en"), record(version="v2", tools=1), record(model="plain")])
            worker.counter.take([record(sent=0.0), record(finish="")])
            await worker.report()
            await worker.report()
        found = await subjects(store)
        sent, *_ = found
        assert {(one.side, one.version) for one in found} == {("input", ""), ("output", "v1"), ("output", "v2")}
        row = await store.hgetall(next(one for one in found if one.side == "input").slice_key(found[sent]))
        assert (row[b"language:en"], row[b"language:und"], row[b"tools:1"]) == (b"2", b"4", b"2")
        view = await DriftRegistry(store, config_of()).view()
        (model,) = view.models
        assert [one.state for one in model.subjects] == ["gathering"] * 3
        assert model.subjects[0].until == pytest.approx(time.time() + DAYS * 86_400, abs=2 * SECONDS)
        assert [family.name for family in drift_families(view)] == ["penstock_drift_compared"]


async def test_a_version_that_answers_no_more_is_left_out_and_a_forgotten_reference_begins_anew(store_url: str) -> None:
    gone, forgotten = Subject("m", "output", "old", DAYS), Subject("m", "input", "", DAYS)
    async with store_at(store_url) as store:
        now = int(await store.now() / SECONDS)
        first = now - 6 * 96
        for subject in (gone, forgotten):
            await begin_reference(store, subject, first - 1)
        await fill(store, gone, range(first, first + DAYS * 96), finish__stop=100)
        registry = DriftRegistry(store, config_of())
        assert (await registry.view()).models[0].subjects == []
        (view,) = (await registry.view()).models[0].subjects
        assert (view.side, view.state) == ("input", "gathering")


async def test_a_version_whose_reference_the_store_has_forgotten_is_forgotten(store_url: str) -> None:
    old = Subject("m", "output", "old", DAYS)
    async with store_at(store_url) as store:
        await begin_reference(store, old, int(await store.now() / SECONDS) - 6 * 96)
        assert (await DriftRegistry(store, config_of()).view()).models[0].subjects == []
        assert await subjects(store) == {}


async def test_a_store_that_is_away_loses_what_was_under_way_alone(store_url: str) -> None:
    async with store_at("unix:///nonexistent/store.sock") as away, store_at(store_url) as store:
        reporter = DriftReporter(away, config_of())
        reporter.counter.take([record()])
        await reporter.report()
        reporter._storage = store
        await reporter.report()
        assert len(await subjects(store)) == 2


async def test_only_models_with_drift_are_known(store_url: str) -> None:
    async with store_at(store_url) as store:
        registry = DriftRegistry(store, config_of())
        for call in (registry.view("plain"), registry.reset("nobody", "a")):
            with pytest.raises(ReplicaNotFound, match="has `drift` in the configuration"):
                await call


def test_versions_are_bounded() -> None:
    reporter = DriftReporter(Store("unix:///nonexistent/store.sock"), config_of())
    reporter.counter.take([record(version=f"v{number}") for number in range(100)])
    assert sum(one.side == "output" for one in reporter.counter.drain()) == 16
