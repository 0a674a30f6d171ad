"""A hundred workers on one store: nothing is given beyond a limit, and nothing is left when all has ended."""

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import uvloop

from gateway.config.models.price import NANO, Price
from gateway.config.tenants import DEFAULT_TIERS, Tenant
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits import limits_batcher as limits_batcher_module
from gateway.tenancy.limits.limit_scripts import base_key
from gateway.tenancy.limits.limiter import Ask, Lease, Usage
from gateway.tenancy.limits.limits_batcher import LimitsBatcher
from gateway.tenancy.limits.plan import Plan, plan_for
from gateway.tenancy.limits.store_limiter import StoreLimiter
from gateway.tenancy.limits.usage_reading import tenant_state, usage
from gateway.tenancy.tenants.caller import Caller
from protos.errors import QuotaExceeded, RateLimited
from tests.loops import BOUND_SECONDS

REQUESTS = 100_000
WORKERS = 100
MODELS = ("mixtral-8x7b", "llama-3.1-70b")
PRICE = Price(input=0.5, output=1.5)

#: Each has one limit that binds, and others that do not.
TENANTS: dict[str, dict[str, Any]] = {
    "requests": {"rpm": 9_000},
    "tokens": {"tpm": 1_500_000},
    "outputs": {"output_tpm": 300_000},
    "concurrency": {"concurrency": 40},
    "budget": {"budget": {"usd": 0.5, "period": "month"}},
    "all": {"rpm": 100_000, "tpm": 10**9, "concurrency": 500, "budget": {"usd": 10_000, "period": "day"}},
}


class World:
    """The workers, and what they know that the store must agree with."""

    def __init__(self, url: str) -> None:
        self.random = random.Random(7)
        self.store = Store(url, timeout=10.0)
        self.alerts: Counter[tuple[str, int]] = Counter()
        self.open: Counter[str] = Counter()
        self.most_open: Counter[str] = Counter()
        self.refused: Counter[tuple[str, str | None]] = Counter()
        self.kills = 0
        self.killed_open: Counter[str] = Counter()
        self.plans = [self._plan(name, limits, key) for name, limits in TENANTS.items() for key in range(3)]
        self.workers = [Worker(self, number) for number in range(WORKERS)]

    def _plan(self, name: str, limits: dict[str, Any], number: int) -> list[Plan]:
        tenant = msgspec.convert({"name": name, "limits": limits}, Tenant)
        key = ApiKey(key_id=f"key_{name}{number}", name=str(number), tenant=name, created_at=0.0)
        caller = Caller(key, tenant, DEFAULT_TIERS[0], 0)
        return [plan_for(caller, model, PRICE) for model in MODELS]


class Life:
    """A worker from its start to its end: a limits batcher, its limiter and the requests under way."""

    def __init__(self, world: World, holder: str) -> None:
        self.world = world
        self.limits_batcher = LimitsBatcher(
            world.store,
            holder,
            timeout=10.0,
            on_alert=lambda tenant, alert: world.alerts.update([(tenant, alert[2])]),
        )
        self.limiter = StoreLimiter(self.limits_batcher)
        self.held: dict[Lease, str] = {}
        self.requests: set[asyncio.Task[None]] = set()
        self.killed = False
        self.task = asyncio.create_task(self.limits_batcher.run())

    def begin(self) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._request())
        self.requests.add(task)
        task.add_done_callback(self.requests.discard)
        return task

    async def _request(self) -> None:
        world, chance = self.world, self.world.random
        plan = chance.choice(chance.choice(world.plans))
        ask = Ask(plan, chance.randint(1, 300), chance.choice((16, 64, 1000)), 1)
        try:
            lease = await self.limiter.reserve(ask)
        except (RateLimited, QuotaExceeded) as error:
            world.refused[plan.tenant, error.code] += 1
            return
        self.held[lease] = plan.tenant
        world.open[plan.tenant] += 1
        world.most_open[plan.tenant] = max(world.most_open[plan.tenant], world.open[plan.tenant])
        try:
            for _ in range(chance.choice((0, 0, 1, 3, 100))):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self.killed:
                self._end(lease)
                lease.settle(Usage(ask.input, 0, 0))
            raise
        self._end(lease)
        ending = chance.random()
        if ending < 0.1:
            lease.release(rejected=ending < 0.05)
        else:
            lease.settle(Usage(ask.input, chance.randint(0, ask.input), chance.randint(0, ask.most)))
        if ending > 0.9:
            lease.release()  # a second ending, which must not count

    def _end(self, lease: Lease) -> None:
        self.world.open[self.held.pop(lease)] -= 1


class Worker:
    """One place among the workers: when its life is ended, another begins."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.life = Life(world, f"worker{number}")

    async def kill(self) -> None:
        """As SIGKILL: nothing is said of what was held, nor of what had not been sent."""
        dead, self.life = self.life, Life(self.world, f"worker{self.number}-{self.world.kills}")
        self.world.kills += 1
        dead.killed = True
        dying = [dead.task, *dead.requests]
        for task in dying:
            task.cancel()
        await asyncio.gather(*dying, return_exceptions=True)
        for tenant in dead.held.values():
            self.world.open[tenant] -= 1
            self.world.killed_open[tenant] += 1


async def client(world: World, budget: list[int]) -> None:
    """Requests one after the other, some of them cancelled while they wait, some workers killed under them."""
    while budget[0] > 0:
        budget[0] -= 1
        worker = world.random.choice(world.workers)
        task = worker.life.begin()
        chance = world.random.random()
        if chance < 0.05:
            for _ in range(world.random.randint(0, 4)):
                await asyncio.sleep(0)
            task.cancel()
        elif chance < 0.0505:
            await asyncio.sleep(0)
            await worker.kill()
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and task.exception() is not None:
            raise task.exception() or AssertionError


def test_a_hundred_workers_never_give_more_than_a_limit(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_batcher_module, "LEASE_SECONDS", 5.0)
    monkeypatch.setattr(limits_batcher_module, "RENEW_SECONDS", 0.5)
    # The loop of the real workers, and half as slow as asyncio's own.
    uvloop.run(stress(store_url))


async def stress(url: str) -> None:
    world = World(url)
    started = await world.store.now()
    await asyncio.gather(*(client(world, budget) for budget in [[REQUESTS]] for _ in range(600)))
    seconds = await world.store.now() - started
    # Leases of cancelled tasks and of killed workers: the first are given back, the others end by their time.
    async with asyncio.timeout(BOUND_SECONDS):
        while any([await world.store.hgetall(f"{base_key(name)}:leases") for name in TENANTS]):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    for worker in world.workers:
        worker.life.task.cancel()
    await asyncio.gather(*(worker.life.task for worker in world.workers), return_exceptions=True)

    assert world.kills > 10
    assert sum(world.killed_open.values()) > 0
    rows = {row.tenant: row for row in await usage(world.store, list(TENANTS), ["tenant"], timedelta(hours=2))}
    for name in TENANTS:
        state = await tenant_state(world.store, name, ["tenant"], [("tenant", "day"), ("tenant", "month")])
        (scope,) = state.scopes
        assert scope.in_flight == 0
        for kind in ("leases", "inflight"):
            assert await world.store.hgetall(f"{base_key(name)}:{kind}") == {}
        holders = await world.store.hgetall(f"{base_key(name)}:holders")
        assert [field for field in holders if field != b"next"] == []
        assert [money.reserved_usd for money in state.budgets] == [0.0, 0.0]
        row = rows[name]
        if name in ("budget", "all"):
            assert max(money.spent_usd for money in state.budgets) == pytest.approx(row.cost_usd, abs=1 / NANO)
        if seconds < 55 and name in ("requests", "tokens", "outputs", "all"):
            # Everything lies in one window, so what it holds is what the ledger says.
            assert (scope.requests, scope.input_tokens, scope.output_tokens) == (
                row.requests,
                row.input_tokens,
                row.output_tokens,
            )
    assert 0 < rows["requests"].requests <= 9_000 or seconds >= 55
    assert world.refused["requests", "requests_per_minute"] > 0
    assert 0 < world.most_open["concurrency"] <= 40
    assert world.refused["concurrency", "concurrent_requests"] > 0
    assert world.refused["budget", "insufficient_quota"] > 0
    assert world.refused["all", "requests_per_minute"] == 0
    assert {key: count for key, count in world.alerts.items() if count != 1} == {}
    assert {("budget", 75), ("budget", 90)} <= set(world.alerts)
    await world.store.aclose()
