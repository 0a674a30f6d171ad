"""Replicas over HTTP."""

import pytest

from tests.gateway.admin.bench import bench_of

PATH = "/admin/replicas"


async def test_a_list_a_drain_and_its_end(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        rows = await bench.data(PATH, limit=1)
        assert [(row["model"], row["id"], row["state"]) for row in rows] == [
            ("m", "p/0", "unknown"),
            ("org/m2", "p/0", "unknown"),
        ]
        assert [row["model"] for row in await bench.data(PATH, model="m")] == ["m"]
        made = await bench.ask("POST", f"{PATH}/drain", {"target": "p", "model": "m", "grace_seconds": 5})
        assert (made.status, made.json["target"], made.json["grace_seconds"]) == (200, "p", 5.0)
        assert made.json["actor"] == "admin-api"
        assert [row["drain"] for row in await bench.data(PATH)] == [made.json, None]
        ended = await bench.ask("POST", f"{PATH}/resume", {"target": "p", "model": "m"}, x_penstock_actor="alice")
        assert ended.json == {"drains": [made.json]}
        assert [row["drain"] for row in await bench.data(PATH)] == [None, None]
        entries = await bench.data("/admin/audit")
        assert [(entry["action"], entry["actor"]) for entry in entries] == [
            ("replica.resume", "admin-api:alice"),
            ("replica.drain", "admin-api"),
        ]


@pytest.mark.parametrize(
    ("status", "param", "path", "body"),
    [
        (404, "target", "drain", {"target": "x"}),
        (404, "model", "drain", {"target": "p", "model": "x"}),
        (400, "model", "drain", {"target": "p"}),
        (400, "model", "resume", {"target": "p"}),
        (400, "target", "drain", {"target": ""}),
        (400, "target", "drain", {}),
        (400, "grace_seconds", "drain", {"target": "p", "model": "m", "grace_seconds": -1}),
        (400, "grace_seconds", "resume", {"target": "p", "model": "m", "grace_seconds": 1}),
        (404, "target", "resume", {"target": "x"}),
    ],
)
async def test_a_mistake_is_named(status: int, param: str, path: str, body: dict[str, object], store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(status, param, "POST", f"{PATH}/{path}", body)
        assert all(row["drain"] is None for row in await bench.data(PATH))


async def test_a_replica_that_is_drained_with_its_pool(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.ask("POST", f"{PATH}/drain", {"target": "p", "model": "m"})
        await bench.refused(409, "target", "POST", f"{PATH}/resume", {"target": "p/0", "model": "m"})


async def test_a_model_that_is_not_there(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        assert "m, org/m2" in await bench.refused(404, "model", "GET", PATH, query={"model": "x"})
