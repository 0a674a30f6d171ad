"""Batches a worker's limit operations: those of one event-loop tick, or of one round trip, share the next round trip.

Operations of one tenant travel as one script call (gateway/tenancy/limits/lua/batch.lua), all tenants' calls in one
round trip. Settlements and bookings, for which nobody waits, go with the next reservation of any tenant, or by
themselves after SETTLE_SECONDS.
A reservation that cannot be had fails at once while the store is away; what must not be lost waits until it is back.
"""

import asyncio
import logging
import time
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
#: A settlement waits for a reservation that takes it along, for so many seconds at most: as long as a reservation may
#: wait for others under load. Until then other workers do not see what it frees.
SETTLE_SECONDS: Final = GATHER_SECONDS
#: Operations in one script call: at some 10 us each, the store is never blocked for more than milliseconds.
MAX_BATCH: Final = 256
#: Settlements kept while the store is away; further ones are dropped, and their leases end by timeout.
MAX_BACKLOG: Final = 100_000
#: The script refuses a reservation that arrives later than this part of the time for which its caller waits.
FRESH_PART: Final = 0.8

_encode = msgspec.msgpack.Encoder().encode
_Reply = tuple[int, list[Any], list[tuple[str, str, int, int, int]]]
_decode: Final[Callable[[bytes], _Reply]] = msgspec.msgpack.Decoder(_Reply).decode

_NEVER: Final = float("-inf")
_STOPPED: Final = "The gateway is shutting down."

Operation = list[Any]
OnAlert = Callable[[str, tuple[str, str, int, int, int]], None]


class ScriptStore(Protocol):
    """The store operations that the batcher needs; both methods raise StoreUnavailable."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object: ...

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        """Run a Lua script for each (key, argument) in one round trip."""


class _Batch(msgspec.Struct, eq=False):
    """Operations of one tenant that wait for a round trip or are in one, each reservation with the future of its
    answer.
    """

    tenant: str
    posts: list[tuple[Operation, Plan | None]] = []
    reserves: list[tuple[Operation, Plan, asyncio.Future[list[Any]]]] = []

    def split(self) -> "_Batch":
        """Cut off what is more than MAX_BATCH operations."""
        most = max(0, MAX_BATCH - len(self.posts))
        rest = _Batch(self.tenant, self.posts[MAX_BATCH:], self.reserves[most:])
        del self.posts[MAX_BATCH:], self.reserves[most:]
        return rest


class _Queues(dict[str, _Batch]):
    """The unsent operations by tenant."""

    def __missing__(self, tenant: str) -> _Batch:
        batch = self[tenant] = _Batch(tenant)
        return batch


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
        #: The tenants of the leases held here, by the lease's id.
        self.leases: dict[str, str] = {}
        #: Durations of round trips, and the number of store failures.
        self.seconds = empty(STORE_SECONDS)
        self.errors = 0
        self._store = store
        self._timeout = timeout
        self._on_alert = on_alert
        self._clock = clock
        self._queues = _Queues()
        self._wake = asyncio.Event()
        #: Wakes for operations that no reservation has taken along; None while none waits for that.
        self._wake_later: asyncio.TimerHandle | None = None
        self._backlog = 0
        #: Held while a round trip is in flight.
        self._round_trip = asyncio.Lock()
        #: When each tenant was last registered as having leases here.
        self._known: dict[str, float] = {}
        #: Tenants that were checked and had no leases.
        self._empty: set[str] = set()
        self._numbers = 0
        #: Start of the last round trip, and the number of operations last taken for one.
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
        self._queues[tenant].reserves.append((operation, plan, future))
        self._wake.set()
        return future

    def post(self, tenant: str, operation: Operation, plan: Plan | None = None) -> None:
        """Send an operation until the store has it; it may be sent twice and counts once."""
        if self._backlog >= MAX_BACKLOG:
            log.error("the store is away for too long: an end of a request of tenant %s is not counted", tenant)
            return
        self._backlog += 1
        self._queues[tenant].posts.append((operation, plan))
        if self._wake_later is None:
            self._wake_later = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._wake_for_posts)

    def disown(self, tenant: str, lease_id: str) -> None:
        """End a lease whose request is gone, if it was granted at all."""
        self.post(tenant, [SETTLE, lease_id, UNUSED, 0, 0, 0])

    def end(self, lease_id: str, ending: int, prompt: int, cached: int, completion: int, extra: int = 0) -> None:
        """End one of `leases`, which costs `extra` nanodollars beside its tokens; a second ending does nothing."""
        tenant = self.leases.pop(lease_id, None)
        if tenant is not None:
            self.post(tenant, [SETTLE, lease_id, ending, prompt, cached, completion, extra])

    async def run(self) -> None:
        """Send batches until cancelled, through outages."""
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                if self.available:
                    await self._wake.wait()
                    if self._last_load > FEW and (wait := self._departed + GATHER_SECONDS - self._clock()) > 0:
                        await asyncio.sleep(wait)
                else:
                    await asyncio.sleep(PROBE_SECONDS)
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

    async def flush(self) -> None:
        """Send what is waiting, once, when a process ends; what fails is left to the leases' timeout."""
        for _ in range(1 + self._backlog // MAX_BATCH):
            if self._queues and self.available:
                await self._deliver(self._take())
        async with self._round_trip:
            pass  # the round trip in flight before has arrived

    def _wake_for_posts(self) -> None:
        self._wake_later = None
        if self._queues:
            self._wake.set()

    def _take(self) -> list[_Batch]:
        """The next batch of each tenant, without reservations that nobody waits for any longer."""
        taken, self._queues = self._queues, _Queues()
        batches, load = [], 0
        for tenant, batch in taken.items():
            batch.reserves = [reserve for reserve in batch.reserves if not reserve[2].done()]
            count = len(batch.posts) + len(batch.reserves)
            if count > MAX_BATCH:
                self._queues[tenant] = batch.split()
                self._wake.set()
                count = MAX_BATCH
            if count:
                load += count
                batches.append(batch)
        self._last_load = load
        return batches

    async def _deliver(self, batches: list[_Batch]) -> None:
        if not batches and self.available:
            return
        replies: Sequence[bytes | StoreUnavailable] = ()
        sent = 0.0
        try:
            async with self._round_trip:
                known, now = self._known, self._clock()
                forgotten = now - KNOWN_PART * LEASE_SECONDS
                unknown = [
                    each.tenant for each in batches if each.reserves and known.get(each.tenant, _NEVER) < forgotten
                ]
                if unknown or not batches:
                    await self._sweep(unknown)
                    now = self._clock()
                if batches:
                    self._departed, sent = now, now * 1000
                    calls = self._calls(
                        batches, int(sent + (self._offset_ms or 0.0) + FRESH_PART * self._timeout * 1000)
                    )
                    replies = await self._store.run_many(BATCH, calls)
                    self.seconds.add(self._clock() - now, STORE_SECONDS.bounds)
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
        failed = False
        for batch, reply in zip(batches, replies, strict=True):
            if isinstance(reply, StoreUnavailable):
                failed = True
                self._failed(batch, reply)
            else:
                self._answered(batch, reply, sent)
        if failed and self.available:
            self.errors += 1
            # If only some tenants' operations fail, nothing else may wake the batcher for them.
            asyncio.get_running_loop().call_later(PROBE_SECONDS, self._wake.set)

    def _calls(self, batches: Sequence[_Batch], deadline: int) -> list[tuple[str, bytes]]:
        """Encode the script's calls, settlements first: they free capacity for the reservations."""
        calls = []
        for batch in batches:
            places: dict[Plan, int] = {}
            operations = []
            for operation, plan in batch.posts:
                if plan is not None:
                    operation[2] = places.setdefault(plan, len(places) + 1)
                operations.append(operation)
            for operation, plan, _ in batch.reserves:
                operation[2] = places.setdefault(plan, len(places) + 1)
                operations.append(operation)
            plans = [plan.encoded for plan in places]
            argument = (self.holder, int(LEASE_SECONDS * 1000), deadline, plans, operations)
            calls.append((base_key(batch.tenant), _encode(argument)))
        return calls

    def _answered(self, batch: _Batch, reply: bytes, sent: float) -> list[Any]:
        """Resolve the futures of a batch and return the script's replies."""
        try:
            now_ms, answers, alerts = _decode(reply)
        except msgspec.MsgspecError as error:
            unreadable = StoreUnavailable("The gateway's store gave an answer that cannot be read.")
            unreadable.__cause__ = error
            self._failed(batch, unreadable)
            return []
        self._compare_clocks(now_ms, sent)
        self._backlog -= len(batch.posts)
        if batch.reserves:
            for (operation, _, future), answer in zip(batch.reserves, answers[len(batch.posts) :], strict=True):
                if future.done():
                    # The request is gone; its lease, if it was granted, has no owner.
                    self.disown(batch.tenant, operation[1])
                else:
                    future.set_result(answer)
        for alert in alerts:
            self._on_alert(batch.tenant, alert)
        return answers

    def _compare_clocks(self, now_ms: int, sent: float) -> None:
        """Narrow the clock offset: the store's clock showed `now_ms` at some time between `sent` and now."""
        least, most, offset = now_ms - self._clock() * 1000, now_ms + 1 - sent, self._offset_ms
        if offset is None or offset > most:
            self._offset_ms = most
        elif offset < least:
            self._offset_ms = least

    def _failed(self, batch: _Batch, error: StoreUnavailable) -> None:
        queue = self._queues[batch.tenant]
        queue.posts[:0] = batch.posts
        for operation, _, future in batch.reserves:
            # The lease may have been granted all the same; from now on the script refuses it as too late.
            self.disown(batch.tenant, operation[1])
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
            reserves, queue.reserves = queue.reserves, []
            for _, _, future in reserves:
                if not future.done():
                    future.set_exception(StoreUnavailable(error.message))

    async def _renew(self) -> None:
        """Report to the store that this worker lives, and end the leases of dead workers."""
        while True:
            if self.available:
                try:
                    await self._touch(list(set(self.leases.values())))
                    await self._sweep(list(set(self.leases.values())))
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
            replies = await self._store.run_many(BATCH, self._calls(part, 0))
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
