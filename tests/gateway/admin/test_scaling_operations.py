"""Scaling over HTTP."""

from typing import Any

import msgspec
import pytest

from gateway.scaling.status import STATUS
from gateway.scaling.stored_decisions import DECISIONS
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from tests.gateway.admin.bench import Bench, bench_of, config_of
from tests.gateway.admin.scaling_samples import decision, model, status

PATH = "/admin/scaling"
POOL = {
    "name": "small",
    "engine": "simulated",
    "replicas": "registered",
    "launcher": "local",
    "scaling": {"min": 1, "max": 6, "price_per_hour": 2.5},
}
MODELS = [
    {"name": "m", "tokenizer": "t", "context": 9, "pools": [POOL]},
    {"name": "other", "tokenizer": "t", "context": 9, "pools": [{"name": "p", "engine": "simulated", "replicas": 1}]},
]
TELL = Script("redis.call('SET', KEYS[1], ARGV[1]) return 1")
ADD = Script("redis.call('XADD', KEYS[1], '*', 'entry', ARGV[1]) return 1")


async def tell(store: Store, at: float) -> None:
    await store.run(TELL, [STATUS], [msgspec.json.encode(status(at=at, models=[model()]))])
    for wanted in (4, 5):
        await store.run(ADD, [DECISIONS], [msgspec.json.encode(decision(at + wanted, wanted))])


async def test_what_the_controller_tells_is_shown(store_url: str) -> None:
    async with bench_of(store_url, config_of(models=MODELS)) as bench:
        before = (await bench.ask("GET", PATH)).json
        assert (before["age_seconds"], before["controller"]) == (None, None)
        assert [(pool["min"], pool["max"], pool["wanted"]) for pool in before["models"][0]["pools"]] == [(1, 6, 0)]
        await tell(bench.store, await bench.store.now())
        view = (await bench.ask("GET", PATH)).json
        assert view["controller"]["name"] == "host-1"
        (shown,) = view["models"]
        assert (shown["pools"][0]["wanted"], shown["cost_per_hour"]) == (5, 12.5)
        found = (await bench.ask("GET", f"{PATH}/decisions", query={"model": "m", "limit": 1})).json["decisions"]
        assert [record["pools"]["small"]["wanted"] for record in found] == [5]


async def test_an_old_word_is_told_as_old(store_url: str) -> None:
    async with bench_of(store_url, config_of(models=MODELS)) as bench:
        told = await bench.store.now() - 60.0
        await tell(bench.store, told)
        view = (await bench.ask("GET", PATH)).json
        assert view["controller"] is None
        assert 60.0 <= view["age_seconds"] <= await bench.store.now() - told


async def test_sizes_and_pauses_are_set_and_audited(store_url: str) -> None:
    async with bench_of(store_url, config_of(models=MODELS)) as bench:
        made = await bench.ask("POST", f"{PATH}/set", {"pool": "small", "replicas": 3}, x_penstock_actor="alice")
        assert (made.status, made.json["pinned"]) == (200, {"small": 3})
        assert (await bench.ask("POST", f"{PATH}/pause", {"model": "m"})).json["paused"] is True
        (shown,) = (await bench.ask("GET", PATH)).json["models"]
        assert (shown["paused"], shown["pools"][0]["pinned"]) == (True, 3)
        again = await bench.ask("POST", f"{PATH}/pause", {"model": "m"})
        assert again.json["paused"] is True
        assert (await bench.ask("POST", f"{PATH}/resume", {"model": "m"})).json["paused"] is False
        assert (await bench.ask("POST", f"{PATH}/set", {"pool": "small", "replicas": None})).json["pinned"] == {}
        entries = await bench.data("/admin/audit")
        assert [(entry["action"], entry["actor"], entry["subject"]) for entry in entries] == [
            ("scaling.set", "admin-api", "m"),
            ("scaling.resume", "admin-api", "m"),
            ("scaling.pause", "admin-api", "m"),
            ("scaling.set", "admin-api:alice", "m"),
        ]


@pytest.mark.parametrize(
    ("code", "param", "path", "body"),
    [
        (404, "pool", "set", {"pool": "x", "replicas": 1}),
        (404, "pool", "set", {"pool": "p", "replicas": 1}),
        (404, "model", "set", {"pool": "small", "replicas": 1, "model": "other"}),
        (400, "replicas", "set", {"pool": "small", "replicas": 7}),
        (400, "replicas", "set", {"pool": "small", "replicas": -1}),
        (400, "replicas", "set", {"pool": "small"}),
        (400, "replicas", "set", {"pool": "small", "replicas": 1.5}),
        (404, "model", "pause", {"model": "x"}),
        (404, "model", "resume", {"model": "other"}),
    ],
)
async def test_a_mistake_is_named(code: int, param: str, path: str, body: dict[str, Any], store_url: str) -> None:
    async with bench_of(store_url, config_of(models=MODELS)) as bench:
        await bench.refused(code, param, "POST", f"{PATH}/{path}", body)
        await expect_nothing_set(bench)


async def expect_nothing_set(bench: Bench) -> None:
    (shown,) = (await bench.ask("GET", PATH)).json["models"]
    assert (shown["paused"], shown["pools"][0]["pinned"]) == (False, None)


async def test_without_a_launcher_there_is_nothing_to_scale(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        assert (await bench.ask("GET", PATH)).json["models"] == []
        assert "no pool has a launcher" in await bench.refused(404, "model", "GET", PATH, query={"model": "m"})
