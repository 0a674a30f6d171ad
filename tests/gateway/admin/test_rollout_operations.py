"""Rollouts over HTTP."""

from typing import Any

from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import AUDIT
from tests.gateway.admin.bench import Bench, bench_of, config_of

PATH = "/admin/rollouts"
POOLS = [
    {"name": name, "engine": "simulated", "replicas": [f"grpc://{name}:1"], "version": version}
    for name, version in (("old", "v1"), ("new", "v2"))
]
MODELS = [{"name": "m", "tokenizer": "t", "context": 9, "stable": "v1", "pools": POOLS}]
ENTRIES = Script("return redis.call('XREVRANGE', KEYS[1], '+', '-')")


async def post(bench: Bench, action: str, body: dict[str, Any]) -> Any:
    return await bench.ask("POST", f"{PATH}/{action}", body=body)


async def test_a_rollout_is_ordered_and_audited(store_url: str) -> None:
    declared = {"model": "m", "to": "v2", "min_requests": 7, "webhook": "http://hook/secret"}
    async with bench_of(store_url, config_of(models=MODELS, rollouts=[declared])) as bench:
        (before,) = (await bench.ask("GET", PATH)).json["models"]
        assert (before["stable"], before["versions"], before["rollout"]) == ("v1", ["v1", "v2"], None)
        made = (await post(bench, "start", {"model": "m", "to": "v2", "hold_seconds": 5})).json
        settings = made["rollout"]["settings"]
        # What is not said is as the file declares it; where events go, nobody is told.
        assert (settings["hold_seconds"], settings["min_requests"], settings["webhook"]) == (5, 7, None)
        assert (made["taken"], made["rollout"]["problem"]) == (False, "until a controller takes it")
        again = await post(bench, "start", {"model": "m", "to": "v2"})
        assert (again.status, again.json["error"]["code"]) == (409, "conflict")
        assert (await post(bench, "pause", {"model": "m"})).json["wish"] == "pause"
        assert (await post(bench, "resume", {"model": "m"})).json["wish"] == "run"
        assert (await post(bench, "promote", {"model": "m"})).json["wish"] == "promote"
        assert (await post(bench, "abort", {"model": "m"})).json["wish"] == "abort"
        stored = str(await bench.store.run(ENTRIES, [AUDIT], []))
        for action in ("start", "pause", "resume", "promote", "abort"):
            assert f"rollout.{action}" in stored
        assert "secret" not in stored
        assert (await bench.ask("GET", f"{PATH}/history")).json == {"events": []}


async def test_what_cannot_be_rolled_out_is_refused_by_its_field(store_url: str) -> None:
    async with bench_of(store_url, config_of(models=MODELS)) as bench:
        for body, status, param in (
            ({"model": "x", "to": "v2"}, 404, "model"),
            ({"model": "m", "to": "v9"}, 400, "to"),
            ({"model": "m", "to": "v2", "stages": [0.5, 0.25, 1]}, 400, "stages[1]"),
            ({"model": "m", "to": "v2", "stages": [1.5]}, 400, "stages[0]"),
            ({"model": "m", "to": "v2", "plan": "ab"}, 400, "goal"),
            ({"model": "m", "to": "v2", "gates": {"golden": "/etc/passwd"}}, 400, "gates"),
        ):
            answer = await post(bench, "start", body)
            assert (answer.status, answer.json["error"]["param"]) == (status, param), body
        for action in ("promote", "abort", "pause", "resume"):
            answer = await post(bench, action, {"model": "m"})
            assert (answer.status, answer.json["error"]["code"]) == (404, "rollout_not_found")
