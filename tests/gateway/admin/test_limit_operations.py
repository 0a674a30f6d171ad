"""What limits and budgets hold, over HTTP and as metrics, after requests that a real limiter has let through."""

import re
from typing import Any

import pytest

from gateway.config.models.price import Price
from gateway.tenancy.limits.limiter import Ask, Usage
from protos.errors import QuotaExceeded, RateLimited
from tests.gateway.admin.bench import Bench, bench_of, config_of

PATH = "/admin/limits"
DOLLAR = Price(input=1_000_000, output=1_000_000)
LIMITS = {"rpm": 3, "tpm": 1000, "concurrency": 5}
SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')


def held(row: dict[str, Any]) -> dict[str, tuple[int, int, int, int]]:
    return {one["name"]: (one["limit"], one["used"], one["remaining"], one["refused"]) for one in row["limits"]}


async def settled(bench: Bench, tenant: str) -> list[Any]:
    """The rows once no request is under way."""
    for _ in range(1000):
        rows = await bench.data(PATH, tenant=tenant)
        if not any(row["in_flight"] for row in rows):
            return rows
    raise AssertionError("a lease is left")


async def test_limits_in_use(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant(limits=LIMITS, model_limits={"m": {"input_tpm": 50, "output_tpm": 800}})
        key = await bench.key(tenant="acme", limits={"rpm": 2})
        await bench.key("unlimited", "acme")
        plan = await bench.plan(key["id"])
        async with bench.limiter() as limiter:
            lease = await limiter.reserve(Ask(plan, 10, 100, 1))
            own, model, tenant = await bench.data(PATH, tenant="acme")
            assert [row["scope"] for row in (own, model, tenant)] == [f"key:{key['id']}", "model:m", "tenant"]
            reserved = held(tenant)["tpm"][1]
            assert held(tenant) == {
                "rpm": (3, 1, 2, 0), "tpm": (1000, reserved, 1000 - reserved, 0), "concurrency": (5, 1, 4, 0)
            }  # fmt: skip
            assert 10 < reserved <= 110
            lease.settle(Usage(prompt=10, completion=7, cached=4))
            own, model, tenant = await settled(bench, "acme")
            assert held(tenant) == {"rpm": (3, 1, 2, 0), "tpm": (1000, 17, 983, 0), "concurrency": (5, 0, 5, 0)}
            assert held(model) == {"input_tpm": (50, 10, 40, 0), "output_tpm": (800, 7, 793, 0)}
            assert held(own) == {"rpm": (2, 1, 1, 0)}
            (await limiter.reserve(Ask(plan, 10, 1, 1))).settle(Usage(10, 1, 0))
            with pytest.raises(RateLimited):
                await limiter.reserve(Ask(plan, 10, 1, 1))
            own, _, tenant = await settled(bench, "acme")
            assert held(own) == {"rpm": (2, 2, 0, 1)}
            assert held(tenant)["rpm"] == (3, 2, 1, 0)
        await bench.ask("POST", f"/admin/keys/{key['id']}/revoke")
        assert [row["scope"] for row in await bench.data(PATH, tenant="acme")] == ["model:m", "tenant"]


async def test_a_budget_in_use(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant(limits={"budget": {"usd": 100, "period": "day", "alerts": [90, 50, 75]}})
        key = await bench.key(tenant="acme")
        plan = await bench.plan(key["id"], price=DOLLAR)
        async with bench.limiter() as limiter:
            lease = await limiter.reserve(Ask(plan, 40, 20, 1))
            (row,) = await bench.data(PATH, tenant="acme")
            budget = row["budget"]
            assert (row["limits"], row["in_flight"]) == ([], None)
            assert 40 < budget["reserved_usd"] <= 60
            assert budget["remaining_usd"] == 100 - budget["reserved_usd"]
            lease.settle(Usage(40, 36, 0))
            while not budget["spent_usd"]:
                budget = (await bench.data(PATH, tenant="acme"))[0]["budget"]
            assert (budget["spent_usd"], budget["reserved_usd"], budget["remaining_usd"]) == (76.0, 0.0, 24.0)
            assert budget["alerts_passed"] == [50, 75]
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", budget["period"])
            assert 0 < budget["resets_in_seconds"] <= 86400
            with pytest.raises(QuotaExceeded):
                await limiter.reserve(Ask(plan, 40, 20, 1))
            assert (await bench.data(PATH, tenant="acme"))[0]["budget"]["refused"] == 1


async def test_pages_and_mistakes(store_url: str) -> None:
    async with bench_of(store_url, config_of(tenants=[{"name": "filed", "limits": {"rpm": 7}}])) as bench:
        for name in ("b", "a"):
            await bench.tenant(name, limits={"rpm": 1}, model_limits={"m": {"tpm": 1}, "org/m2": {"tpm": 1}})
            await bench.key("k", name, limits={"rpm": 1})
        expected = [(row["tenant"], row["scope"]) for row in await bench.data(PATH)]
        assert len(expected) == 9, "the file's tenant too"
        assert expected == sorted(expected)
        for limit in (1, 2, 5, 8):
            assert [(row["tenant"], row["scope"]) for row in await bench.data(PATH, limit=limit)] == expected
        assert await bench.data(PATH, tenant="default") == []
        await bench.refused(404, "tenant", "GET", PATH, query="tenant=nobody")


async def test_metrics(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant(limits={**LIMITS, "budget": {"usd": 100}}, model_limits={"m": {"rpm": 9}})
        await bench.tenant("unlimited")
        key = await bench.key(tenant="acme", limits={"rpm": 1})
        plan = await bench.plan(key["id"], price=DOLLAR)
        async with bench.limiter() as limiter:
            lease = await limiter.reserve(Ask(plan, 80, 1, 1))
            with pytest.raises(RateLimited):
                await limiter.reserve(Ask(plan, 1, 2000, 1))
            before = (await bench.ask("GET", "/metrics")).body.decode()
            lease.settle(Usage(80, 1, 0))
            await settled(bench, "acme")
        lines = (await bench.ask("GET", "/metrics")).body.decode().splitlines()
        for line in lines:
            assert line.startswith("# ") or SAMPLE.fullmatch(line), line
        assert 'penstock_limited_requests_in_flight{tenant="acme",scope="tenant"} 1' in before.splitlines()
        for line in (
            'penstock_limit{tenant="acme",scope="tenant",limit="rpm"} 3',
            'penstock_limit_used{tenant="acme",scope="tenant",limit="rpm"} 1',
            'penstock_limit_used{tenant="acme",scope="model:m",limit="rpm"} 1',
            'penstock_limit_used{tenant="acme",scope="tenant",limit="tpm"} 81',
            'penstock_limited_requests_in_flight{tenant="acme",scope="tenant"} 0',
            'penstock_budget_usd{tenant="acme",scope="tenant",period="month"} 100.0',
            'penstock_budget_spent_usd{tenant="acme",scope="tenant",period="month"} 81.0',
            'penstock_budget_alerts_passed{tenant="acme",scope="tenant",period="month"} 1',
            "penstock_tenants_left_out 0",
        ):
            assert line in lines, (line, lines)
        assert not any("key:" in line or "unlimited" in line for line in lines), "series are bounded"
