"""A worker's limits on a real loop and a real store, and what a test may do to either."""

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import redis

from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.limits.limit_scripts import base_key
from gateway.tenancy.limits.limiter import Ask, Lease
from gateway.tenancy.limits.limits_batcher import LimitsBatcher
from gateway.tenancy.limits.plan import Plan
from gateway.tenancy.limits.store_limiter import StoreLimiter
from gateway.tenancy.limits.usage_reading import TenantState, UsageRow, tenant_state, usage
from protos.errors import StoreUnavailable
from tests.gateway.tenancy.limits.bench import plan_of
from tests.loops import until
from tests.stores import is_idle

_T = TypeVar("_T")
Alert = tuple[str, tuple[str, str, int, int, int]]


class Watched:
    """The real store, with round trips counted. Answers wait for `gate`; to tenants in `failing` they are errors."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.trips = 0
        self.sizes: list[int] = []
        self.failing: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        return await self.store.run(script, keys, arguments)

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        self.trips += 1
        self.sizes.append(len(calls))
        replies = await self.store.run_many(script, calls)
        await self.gate.wait()
        failing = {base_key(tenant) for tenant in self.failing}
        return [
            StoreUnavailable("no") if key in failing else reply for (key, _), reply in zip(calls, replies, strict=True)
        ]


class Worker:
    """A limits batcher with its limiter, running."""

    def __init__(self, url: str, *, timeout: float, clock: Callable[[], float]) -> None:
        self.store = Store(url, timeout=timeout)
        self.watched = Watched(self.store)
        self.alerts: list[Alert] = []
        self.limits_batcher = LimitsBatcher(
            self.watched,
            f"worker-{secrets.token_hex(4)}",
            timeout=timeout,
            on_alert=lambda tenant, alert: self.alerts.append((tenant, alert)),
            clock=clock,
        )
        self.limiter = StoreLimiter(self.limits_batcher, clock=clock)
        self.task = asyncio.create_task(self.limits_batcher.run())

    async def reserve(self, plan: Plan, given: int = 1, most: int = 1, *, n: int = 1) -> Lease:
        return await self.limiter.reserve(Ask(plan, given, most, n))

    def frozen(self, server: EmbeddedStore) -> contextlib.AbstractContextManager[None]:
        """Freeze its store, which it then gives but little time."""
        assert server.pid is not None
        return frozen(server.pid, self.store, self.limits_batcher)

    async def settled(self) -> None:
        """Until everything has arrived."""
        await until(lambda: is_idle(self.limits_batcher), lambda: "something is still to be delivered")

    async def state(self, tenant: str) -> TenantState:
        return await tenant_state(self.store, tenant, ["tenant"], [("tenant", "month")])

    async def in_flight(self, tenant: str) -> int:
        return (await self.state(tenant)).scopes[0].in_flight

    async def used(self, tenant: str) -> UsageRow:
        (row,) = await usage(self.store, [tenant], ["tenant"], timedelta(days=1)) or [UsageRow()]
        return row

    async def leases(self, tenant: str) -> int:
        return len(await self.store.hgetall(f"{base_key(tenant)}:leases"))

    async def crash(self) -> None:
        """Nothing more is said by it."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@contextlib.asynccontextmanager
async def worker_of(
    url: str, *, timeout: float = 10.0, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Worker]:
    worker = Worker(url, timeout=timeout, clock=clock)
    try:
        yield worker
    finally:
        await worker.crash()
        await worker.store.aclose()


async def warm(worker: Worker, *tenants: str) -> None:
    """Make tenants known, as the first reservation of each does."""
    for tenant in tenants or ("acme",):
        (await worker.reserve(plan_of(tenant, rpm=10**6))).release()
    await worker.settled()


@contextlib.contextmanager
def frozen(pid: int, *impatient: Store | LimitsBatcher, seconds: float = 0.2) -> Iterator[None]:
    """A store that takes everything and answers nothing; meanwhile these give it so long, and not until it answers."""
    known = [one._timeout for one in impatient]
    os.kill(pid, signal.SIGSTOP)
    try:
        for one in impatient:
            one._timeout = seconds
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        for one, timeout in zip(impatient, known, strict=True):
            one._timeout = timeout


def at_once(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """What it gives, or raises, without waiting for anything."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(_T, end.value)
    coroutine.close()
    raise AssertionError("it waits for something")


def evalsha_calls(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        stats: Any = client.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {"calls": 0})["calls"])
