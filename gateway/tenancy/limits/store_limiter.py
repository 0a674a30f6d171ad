"""The limiter of a worker: exact counts in the store, and local counts for fail_open tenants while it is away."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gateway.caching.lru import Lru
from gateway.tenancy.limits.bookings import BookedLease, Bookings
from gateway.tenancy.limits.expected_output import UNKNOWN_OUTPUT
from gateway.tenancy.limits.limit_refusals import refusal_error
from gateway.tenancy.limits.limiter import Ask, Lease, Rate, Room, Usage
from gateway.tenancy.limits.limits_batcher import BOOK, REJECTED, RESERVE, UNUSED, USED, LimitsBatcher
from gateway.tenancy.limits.local import LocalLimits
from observability.metrics.declarations import RESERVATION_RESULTS
from protos.errors import StoreUnavailable

#: Seconds between bookings of use that needed no reservation.
BOOK_SECONDS: Final = 1.0
#: Keys whose last known rate is cached, for answers that reserve nothing themselves.
MAX_RATES: Final = 10_000

_REFUSED, _TOO_LATE = 0, 2


class StoreLimiter:
    """Reserves in the store. `limits_batcher` must be running, and so must `run`."""

    def __init__(self, limits_batcher: LimitsBatcher, *, clock: Callable[[], float] = time.monotonic) -> None:
        #: Reservations by outcome, as the metrics declare the outcomes.
        self.reservations = dict.fromkeys(RESERVATION_RESULTS, 0)
        self._limits_batcher = limits_batcher
        self._local = LocalLimits(clock)
        self._bookings = Bookings()
        self._rates: Lru[str, tuple[Rate, float]] = Lru(MAX_RATES)
        self._clock = clock

    async def reserve(self, ask: Ask) -> Lease:
        plan, limits_batcher = ask.plan, self._limits_batcher
        if not plan.metered:
            if len(self._rates):
                # Rates of limits that have been removed since, or that another model has, are not reported.
                self._rates.discard(plan.key_id)
            return self._bookings.lease(plan, ask.input, ask.most, ask.sequences)
        tenant, lease_id = plan.tenant, f"{limits_batcher.holder}/{limits_batcher.number()}"
        operation = [RESERVE, lease_id, 0, ask.input, ask.most, ask.sequences, UNKNOWN_OUTPUT]
        future: asyncio.Future[list[Any]] | None = None
        try:
            future = limits_batcher.reserve(tenant, operation, plan)
            answer = await future
            if answer[0] == _TOO_LATE:
                # It is sent again once: the estimate of the store's clock may be wrong.
                future = limits_batcher.reserve(tenant, operation, plan)
                answer = await future
                if answer[0] == _TOO_LATE:
                    raise StoreUnavailable
        except asyncio.CancelledError:
            # Cancelled between the reply and its reader: the batcher counts it as delivered.
            if future is not None and future.done() and not future.cancelled() and future.exception() is None:
                limits_batcher.disown(tenant, lease_id)
            raise
        except StoreUnavailable:
            self.reservations["failed_open" if plan.fail_open else "failed_closed"] += 1
            if not plan.fail_open:
                raise
            return self._reserve_locally(ask)
        self._rates.put(plan.key_id, (Rate(Room(*answer[2:5]), Room(*answer[5:8])), self._clock()))
        if answer[0] == _REFUSED:
            self.reservations["refused"] += 1
            raise refusal_error(plan, answer[1])
        self.reservations["granted"] += 1
        limits_batcher.leases[lease_id] = tenant
        return StoreLease(limits_batcher, lease_id, answer[1])

    def last_rate(self, key_id: str) -> Rate | None:
        known = self._rates.get(key_id)
        if known is None:
            return None
        rate, at = known
        seconds = self._clock() - at
        if seconds < 1:
            # Headers give whole seconds, rounded up.
            return rate
        return Rate(_later(rate.requests, int(seconds * 1000)), _later(rate.tokens, int(seconds * 1000)))

    async def run(self) -> None:
        """Book periodically until cancelled."""
        while True:
            await asyncio.sleep(BOOK_SECONDS)
            self.book_now()

    def book_now(self) -> None:
        """Send the unreserved use to the store; while the store is away it accumulates."""
        if not self._limits_batcher.available:
            self._bookings.fold()
            return
        for plan, counts in self._bookings.take():
            self._limits_batcher.post(plan.tenant, [BOOK, self._limits_batcher.number(), 0, *counts], plan)

    def _reserve_locally(self, ask: Ask) -> Lease:
        lease = self._bookings.lease(ask.plan, ask.input, ask.most, ask.sequences)
        for scope in ask.plan.scopes:
            if scope.tokens:
                lease.output = min(lease.output, max(1, scope.tokens - ask.input))
            if scope.output_tokens:
                lease.output = min(lease.output, scope.output_tokens)
        taken = self._local.take(ask, lease.output)
        if not isinstance(taken, int):
            lease.release(rejected=True)
            raise refusal_error(ask.plan, taken)
        return LocalLease(ask, lease, self._local, taken)


def _later(room: Room, passed_ms: int) -> Room:
    """The certain part of a rate some time after it was read: no use is left once that is long enough."""
    if passed_ms >= room.reset_ms:
        return Room(room.limit, room.limit, 0)
    return Room(room.limit, room.remaining, room.reset_ms - passed_ms)


class StoreLease(msgspec.Struct, eq=False, gc=False):
    """A lease in the store, which is among those of the limits batcher until its end."""

    limits_batcher: LimitsBatcher
    id: str
    output: int

    def settle(self, usage: Usage) -> None:
        self.limits_batcher.end(self.id, USED, usage.prompt, usage.cached, usage.completion, usage.extra)

    def release(self, *, rejected: bool = False) -> None:
        self.limits_batcher.end(self.id, REJECTED if rejected else UNUSED, 0, 0, 0)


class LocalLease:
    """A lease of this worker's own counts, taken while the store was away. Its use is booked at its end."""

    __slots__ = ("_ask", "_booked", "_local", "_taken", "output")

    def __init__(self, ask: Ask, booked: BookedLease, local: LocalLimits, taken: int) -> None:
        self._ask = ask
        self._booked = booked
        self._local = local
        self._taken = taken
        self.output = booked.output

    def settle(self, usage: Usage) -> None:
        self._give_back((1, usage.prompt, usage.completion))
        self._booked.settle(usage)

    def release(self, *, rejected: bool = False) -> None:
        self._give_back((0, 0, 0))
        self._booked.release(rejected=rejected)

    def _give_back(self, used: tuple[int, int, int]) -> None:
        if self._booked.open:
            self._local.give_back(self._taken, self._ask, self.output, used)
