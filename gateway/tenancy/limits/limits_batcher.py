"""Batches a worker's limit operations: those of one event-loop tick, or of one round trip, share the next round trip.

Operations of one tenant travel as one script call (gateway/tenancy/limits/lua/batch.lua), all tenants' calls in one
round trip.
A reservation that cannot be had fails at once while the store is away; what must not be lost waits until it is back.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.tenancy.limits.limit_scripts import BATCH, TENANTS, TENANTS_KEY, base_key
from gateway.tenancy.limits.plan import Plan
from observability.logs import RateLimit
from observability.metrics.declarations import STORE_SECONDS
from observability.metrics.snapshot import empty
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=5))

RESERVE: Final = 1
SETTLE: Final = 2
BOOK: Final = 3
#: How a settlement ends a lease.
USED: Final = 0
UNUSED: Final = 1
REJECTED: Final = 2

#: A worker that is silent for so long counts as dead, and its leases end as if their reservations had been used.
LEASE_SECONDS: Final = 12.0
RENEW_SECONDS: Final = 3.0
#: A tenant is registered as having leases before it has any, and again after this part of a lease's lifetime.
KNOWN_PART: Final = 0.5
#: Seconds between two attempts to reach a store that is away.
PROBE_SECONDS: Final = 0.25
#: Round trips with more than a few operations are at least this far apart, in seconds.
GATHER_SECONDS: Final = 0.002
FEW: Final = 4
#: Operations in one script call: at some 10 us each, the store is never blocked for more than milliseconds.
MAX_BATCH: Final = 256
#: Settlements kept while the store is away; further ones are dropped, and their leases end by timeout.
MAX_BACKLOG: Final = 100_000
#: The script refuses a reservation that arrives later than this part of the time for which its caller waits.
FRESH_PART: Final = 0.8

_encode = msgspec.msgpack.Encoder().encode
_Reply = tuple[int, list[Any], list[tuple[str, str, int, int, int]]]
_decoder: Final[msgspec.msgpack.Decoder[_Reply]] = msgspec.msgpack.Decoder(_Reply)

_STOPPED: Final = "The gateway is shutting down."

Operation = list[Any]
OnAlert = Callable[[str, tuple[str, str, int, int, int]], None]


class ScriptStore(Protocol):
    """The store operations that the batcher needs; both methods raise StoreUnavailable."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object: ...

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        """Run a Lua script for each (key, argument) in one round trip."""


class _Queue:
    """One tenant's unsent operations."""

    __slots__ = ("posts", "reserves")

    def __init__(self) -> None:
        self.posts: deque[tuple[Operation, Plan | None]] = deque()
        self.reserves: deque[tuple[Operation, Plan, asyncio.Future[list[Any]]]] = deque()


class _Batch:
    """Operations of one tenant in flight, each with the future of its reply."""

    __slots__ = ("operations", "plans", "posts", "tenant", "waiting")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.operations: list[Operation] = []
        self.plans: dict[str, tuple[int, msgspec.Raw]] = {}
        self.posts: list[tuple[Operation, Plan | None]] = []
        self.waiting: list[tuple[int, str, asyncio.Future[list[Any]]]] = []

    def add(self, operation: Operation, plan: Plan | None) -> None:
        if plan is not None:
            known = self.plans.get(plan.digest)
            if known is None:
                known = self.plans[plan.digest] = (len(self.plans) + 1, plan.encoded)
            operation[2] = known[0]
        self.operations.append(operation)


class LimitsBatcher:
    """Sends operations in batches; one per worker. `run` must be running; `holder` identifies the worker's process."""

    def __init__(
        self,
        store: ScriptStore,
        holder: str,
        *,
        timeout: float,
        on_alert: OnAlert,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` bounds a store call, in seconds; `on_alert` is called with a tenant and its budget's alert."""
        self.holder = holder
        self.available = True
        #: Durations of round trips, and the number of store failures.
        self.seconds = empty(STORE_SECONDS)
        self.errors = 0
        self._store = store
        self._timeout = timeout
        self._on_alert = on_alert
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._wake = asyncio.Event()
        self._backlog = 0
        #: Held while a round trip is in flight.
        self._round_trip = asyncio.Lock()
        self._leases: dict[str, int] = {}
        #: When each tenant was last registered as having leases here.
        self._known: dict[str, float] = {}
        #: Tenants that were checked and had no leases.
        self._empty: set[str] = set()
        self._numbers = 0
        #: Start of the last round trip, and its number of operations.
        self._departed = float("-inf")
        self._last_load = 0
        #: The store's clock minus ours, in ms; None until the first reply.
        self._offset_ms: float | None = None

    def number(self) -> int:
        """A number that this holder has not issued before, greater than all earlier ones."""
        self._numbers += 1
        return self._numbers

    def reserve(self, tenant: str, operation: Operation, plan: Plan) -> "asyncio.Future[list[Any]]":
        """Send a reservation; item 1 is the lease's id, item 2 becomes the plan's. Raises StoreUnavailable."""
        if not self.available:
            raise StoreUnavailable
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._queue(tenant).reserves.append((operation, plan, future))
        self._wake.set()
        return future

    def post(self, tenant: str, operation: Operation, plan: Plan | None = None) -> None:
        """Send an operation until the store has it; it may be sent twice and counts once."""
        if self._backlog >= MAX_BACKLOG:
            log.error("the store is away for too long: an end of a request of tenant %s is not counted", tenant)
            return
        self._backlog += 1
        self._queue(tenant).posts.append((operation, plan))
        self._wake.set()

    def disown(self, tenant: str, lease_id: str) -> None:
        """End a lease whose request is gone, if it was granted at all."""
        self.post(tenant, [SETTLE, lease_id, UNUSED, 0, 0, 0])

    def opened(self, tenant: str) -> None:
        """Count a lease of the tenant that is now held."""
        self._leases[tenant] = self._leases.get(tenant, 0) + 1

    def ended(self, tenant: str) -> None:
        """Discount a lease of the tenant that has ended."""
        left = self._leases[tenant] - 1
        if left:
            self._leases[tenant] = left
        else:
            del self._leases[tenant]

    async def run(self) -> None:
        """Send batches until cancelled, through outages."""
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                if self.available:
                    await self._wake.wait()
                else:
                    await asyncio.sleep(PROBE_SECONDS)
                await self._delay_round_trip()
                self._wake.clear()
                try:
                    await self._deliver(self._take())
                except Exception:
                    log.exception("operations on limits cannot be delivered")
                    await asyncio.sleep(PROBE_SECONDS)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            self._refuse_waiting(StoreUnavailable(_STOPPED))

    async def _delay_round_trip(self) -> None:
        """Under load, delay the next round trip a little: more operations then share its cost."""
        wait = self._departed + GATHER_SECONDS - self._clock()
        if self._last_load > FEW and wait > 0:
            await asyncio.sleep(wait)

    async def flush(self) -> None:
        """Send what is waiting, once, when a process ends; what fails is left to the leases' timeout."""
        for _ in range(1 + self._backlog // MAX_BATCH):
            if self._queues and self.available:
                await self._deliver(self._take())
        async with self._round_trip:
            pass  # the round trip in flight before has arrived

    def _queue(self, tenant: str) -> _Queue:
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = _Queue()
        return queue

    def _take(self) -> list[_Batch]:
        """The next batch of each tenant, settlements first: they free capacity for the reservations."""
        batches = []
        for tenant, queue in list(self._queues.items()):
            batch = _Batch(tenant)
            while queue.posts and len(batch.operations) < MAX_BATCH:
                operation, plan = queue.posts.popleft()
                batch.add(operation, plan)
                batch.posts.append((operation, plan))
            while queue.reserves and len(batch.operations) < MAX_BATCH:
                operation, plan, future = queue.reserves.popleft()
                if not future.done():
                    batch.waiting.append((len(batch.operations), operation[1], future))
                    batch.add(operation, plan)
            if not queue.posts and not queue.reserves:
                del self._queues[tenant]
            if batch.operations:
                batches.append(batch)
        if self._queues:
            self._wake.set()
        return batches

    async def _deliver(self, batches: list[_Batch]) -> None:
        if not batches and self.available:
            return
        replies: Sequence[bytes | StoreUnavailable] = ()
        sent = self._clock() * 1000
        try:
            async with self._round_trip:
                unknown = [batch.tenant for batch in batches if batch.waiting and self._forgotten(batch.tenant, sent)]
                if unknown or not batches:
                    await self._sweep(unknown)
                if batches:
                    self._departed, self._last_load = self._clock(), sum(len(batch.operations) for batch in batches)
                    sent = self._departed * 1000
                    deadline = int(sent + (self._offset_ms or 0.0) + FRESH_PART * self._timeout * 1000)
                    calls = [(base_key(batch.tenant), self._encoded(batch, deadline)) for batch in batches]
                    replies = await self._store.run_many(BATCH, calls)
                    self.seconds.add(self._clock() - self._departed, STORE_SECONDS.bounds)
        except StoreUnavailable as error:
            self._store_failed(error)
            replies = [error] * len(batches)
        except BaseException:
            for batch in batches:
                self._failed(batch, StoreUnavailable(_STOPPED))
            raise
        else:
            if not self.available:
                self.available = True
                log.warning("the store is back; limits are counted there again")
        for batch, reply in zip(batches, replies, strict=True):
            if isinstance(reply, StoreUnavailable):
                self._failed(batch, reply)
            else:
                self._answered(batch, reply, sent)
        if self.available and any(isinstance(reply, StoreUnavailable) for reply in replies):
            self.errors += 1
            # If only some tenants' operations fail, nothing else may wake the batcher for them.
            asyncio.get_running_loop().call_later(PROBE_SECONDS, self._wake.set)

    def _encoded(self, batch: _Batch, deadline: int) -> bytes:
        plans = [encoded for _, encoded in batch.plans.values()]
        return _encode((self.holder, int(LEASE_SECONDS * 1000), deadline, plans, batch.operations))

    def _answered(self, batch: _Batch, reply: bytes, sent: float) -> list[Any]:
        """Resolve the futures of a batch and return the script's replies."""
        try:
            now_ms, answers, alerts = _decoder.decode(reply)
        except msgspec.MsgspecError as error:
            unreadable = StoreUnavailable("The gateway's store gave an answer that cannot be read.")
            unreadable.__cause__ = error
            self._failed(batch, unreadable)
            return []
        self._compare_clocks(now_ms, sent)
        self._backlog -= len(batch.posts)
        for position, lease_id, future in batch.waiting:
            if future.done():
                # The request is gone; its lease, if it was granted, has no owner.
                self.disown(batch.tenant, lease_id)
            else:
                future.set_result(answers[position])
        for alert in alerts:
            self._on_alert(batch.tenant, alert)
        return answers

    def _compare_clocks(self, now_ms: int, sent: float) -> None:
        """Narrow the clock offset: the store's clock showed `now_ms` at some time between `sent` and now."""
        least, most = now_ms - self._clock() * 1000, now_ms + 1 - sent
        self._offset_ms = most if self._offset_ms is None else min(max(self._offset_ms, least), most)

    def _failed(self, batch: _Batch, error: StoreUnavailable) -> None:
        queue = self._queue(batch.tenant)
        queue.posts.extendleft(reversed(batch.posts))
        for _, lease_id, future in batch.waiting:
            # The lease may have been granted all the same; from now on the script refuses it as too late.
            self.disown(batch.tenant, lease_id)
            if not future.done():
                future.set_exception(StoreUnavailable(error.message))
        if self.available:
            log.warning("limits of tenant %s cannot be counted: %s", batch.tenant, error.__cause__ or error)

    def _store_failed(self, error: StoreUnavailable) -> None:
        self.errors += 1
        if self.available:
            self.available = False
            # It waits for operations, and none may come: from now on it must probe.
            self._wake.set()
            log.error("the store does not answer: %s", error.__cause__ or error)
        self._refuse_waiting(error)

    def _refuse_waiting(self, error: StoreUnavailable) -> None:
        for queue in self._queues.values():
            while queue.reserves:
                _, _, future = queue.reserves.popleft()
                if not future.done():
                    future.set_exception(StoreUnavailable(error.message))

    async def _renew(self) -> None:
        """Report to the store that this worker lives, and end the leases of dead workers."""
        while True:
            if self.available:
                try:
                    await self._touch(list(self._leases))
                    await self._sweep(list(self._leases))
                except StoreUnavailable as error:
                    self._store_failed(error)
                except Exception:
                    log.exception("leases cannot be renewed")
            await asyncio.sleep(RENEW_SECONDS)

    async def _touch(self, tenants: Sequence[str]) -> None:
        """Send an empty batch: it renews this holder's leases and ends those of dead workers.

        Tenants that turn out to have no leases need no more looks.
        """
        for start in range(0, len(tenants), MAX_BATCH):
            part = [_Batch(tenant) for tenant in tenants[start : start + MAX_BATCH]]
            sent = self._clock() * 1000
            replies = await self._store.run_many(BATCH, [(base_key(b.tenant), self._encoded(b, 0)) for b in part])
            for batch, reply in zip(part, replies, strict=True):
                if isinstance(reply, bytes) and self._answered(batch, reply, sent) == [False]:
                    self._empty.add(batch.tenant)

    async def _sweep(self, tenants: Sequence[str]) -> None:
        """Register these tenants as having leases here, and check those registered by nobody for too long.

        A lease may have been opened up to KNOWN_PART of a life later, so a tenant with any comes to be looked at again.
        """
        sent, empty = self._clock(), self._empty.difference(tenants)
        self._empty = set()
        arguments = [str(int(LEASE_SECONDS * 1000)), str(len(empty)), *empty, *tenants]
        reply = await self._store.run(TENANTS, [TENANTS_KEY], arguments)
        now_ms, over = cast("tuple[int, list[bytes]]", reply)
        self._compare_clocks(now_ms, sent * 1000)
        self._known = {tenant: at for tenant, at in self._known.items() if sent - at < LEASE_SECONDS}
        self._known.update(dict.fromkeys(tenants, sent))
        if over:
            await self._touch([name.decode() for name in over])

    def _forgotten(self, tenant: str, now_ms: float) -> bool:
        known = self._known.get(tenant)
        return known is None or now_ms / 1000 - known > KNOWN_PART * LEASE_SECONDS
