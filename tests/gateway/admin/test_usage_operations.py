"""Use, over HTTP and from the command line, which share their code."""

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from gateway.store.lua_script import Script
from gateway.tenancy.limits.limit_scripts import base_key
from tests.gateway.admin.bench import Bench, bench_of

PATH = "/admin/usage"
HSET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
TODAY = [10, 1000, 400, 300, 1_234_500_000, 2, 50]


async def used(bench: Bench, tenant: str, model: str, key: str, counts: list[int], hours_ago: float = 0) -> None:
    """As gateway/tenancy/limits/lua/ledger.lua writes it."""
    then = await bench.store.now() - 3600 * hours_ago
    for kind, seconds in (("h", 3600), ("d", 86400)):
        place = f"{base_key(tenant)}:usage:{kind}:{int(then // seconds)}"
        await bench.store.run(HSET, [place], [f"{model}\0{key}", msgspec.msgpack.encode(counts)])


async def some_use(bench: Bench) -> None:
    await bench.tenant()
    await used(bench, "acme", "m", "key_a", TODAY)
    await used(bench, "acme", "m", "key_b", [1] * 7)
    await used(bench, "acme", "org/m2", "key_a", [2] * 7, hours_ago=50)
    await used(bench, "default", "m", "key_c", [3] * 7, hours_ago=24 * 20)


async def test_rows(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        assert await bench.data(PATH) == []
        await some_use(bench)
        first, second = await bench.data(PATH)
        assert first == {
            "object": "usage", "tenant": "acme", "model": "m", "key": None, "day": None, "requests": 11,
            "input_tokens": 1001, "cached_tokens": 401, "output_tokens": 301, "cost_usd": 1.2345,
            "rejected_requests": 3, "rejected_tokens": 51,
        }  # fmt: skip
        assert (second["model"], second["requests"]) == ("org/m2", 2)
        assert [row["requests"] for row in await bench.data(PATH, since="3h", by="tenant")] == [11]
        assert [row["requests"] for row in await bench.data(PATH, since="4w", by="tenant")] == [13, 3]
        by_key = await bench.data(PATH, by="key,day", since="72h")
        assert [row["key"] for row in by_key] == ["key_a", "key_a", "key_b"]
        days = {row["day"] for row in by_key}
        assert all(datetime.date.fromisoformat(day) for day in days)
        assert len(days) == 2
        assert [row["requests"] for row in await bench.data(PATH, by="tenant", since="400d", tenant="default")] == [3]
        whole = await bench.data(PATH, by="tenant,model,key,day", since="400d")
        for limit in (1, 2, 3):
            assert await bench.data(PATH, by="tenant,model,key,day", since="400d", limit=limit) == whole


async def test_a_tenant_that_is_gone_has_left_its_use(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant()
        key = await bench.key(tenant="acme")
        await used(bench, "acme", "m", key["id"], TODAY)
        await bench.ask("POST", f"/admin/keys/{key['id']}/revoke")
        assert (await bench.ask("DELETE", "/admin/tenants/acme")).status == 200
        for query in ({}, {"tenant": "acme"}):
            assert [row["requests"] for row in await bench.data(PATH, **query)] == [10]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"by": "tenant,colour"}, "by"),
        ({"by": ""}, "by"),
        ({"by": "tenant,tenant"}, "by"),
        ({"since": "7"}, "since"),
        ({"since": "0h"}, "since"),
        ({"since": "-1h"}, "since"),
        ({"since": "401d"}, "since"),
        ({"since": "999999999w"}, "since"),
        ({"since": "١h"}, "since"),
        ({"since": ""}, "since"),
        ({"until": "7d"}, "until"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "1.5"}, "limit"),
        ({"after": "x"}, "after"),
    ],
)
async def test_bad_parameters(store_url: str, query: dict[str, Any], param: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(400, param, "GET", PATH, query=query)
        await bench.refused(404, "tenant", "GET", PATH, query="tenant=nobody")
        await bench.refused(400, "by", "GET", PATH, query="by=tenant&by=model")


@pytest.fixture
def config(tmp_path: Path, store_url: str) -> str:
    path = tmp_path / "penstock.yaml"
    path.write_text(
        f"store: {{url: '{store_url}'}}\nmodels:\n"
        "  - {name: m, tokenizer: mistral-tekken, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}\n"
    )
    return str(path)


async def test_the_command_prints_a_table(store_url: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(main, ["usage", "--config", config]) == 0
    assert capsys.readouterr().out == "nothing was used in the last 7d\n"
    async with bench_of(store_url) as bench:
        await some_use(bench)
    assert await asyncio.to_thread(main, ["usage", "--config", config, "--by", "tenant, model"]) == 0
    # fmt: off
    assert capsys.readouterr().out == (
        "TENANT  MODEL   REQUESTS  INPUT  CACHED  OUTPUT     USD  REFUSED  (TOKENS)\n"
        "acme    m             11  1,001     401     301  1.2345        3        51\n"
        "acme    org/m2         2      2       2       2  0.0000        2         2\n"
        "TOTAL                 13  1,003     403     303  1.2345        5        53\n"
    )
    # fmt: on
    assert await asyncio.to_thread(main, ["usage", "--config", config, "--since", "3h", "--by", "tenant"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "one row is its own sum"


async def test_the_command_prints_json(store_url: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with bench_of(store_url) as bench:
        await some_use(bench)
    assert (
        await asyncio.to_thread(main, ["usage", "--config", config, "--json", "--since", "4w", "--tenant", "default"])
        == 0
    )
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["tenant"], row["model"], row["key"], row["requests"]) == ("default", "m", None, 3)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--by", "colour"], "--by: expected some of tenant, model, key, day, got 'colour'"),
        (["--since", "soon"], "--since: expected a time such as 30m, 24h, 7d or 4w, got 'soon'"),
        (["--since", "2000d"], "--since: expected more than 0 and at most 400d, got 2000d"),
        (["--tenant", "nobody"], "There is no tenant 'nobody'."),
    ],
)
def test_the_command_names_what_is_wrong(
    options: list[str], problem: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "--config", config, *options]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"penstock usage: {problem}\n")
