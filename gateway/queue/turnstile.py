"""Where requests for one model wait for their turn, and what lets them through."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from math import exp
from typing import Protocol

from gateway.queue.admission import Need, feasible, fits, has_long_backlog, sum_of, usable, with_promised
from gateway.queue.division import Divider, Division, TenantUse
from gateway.queue.fair_queue import Entry, FairQueue, cost_of
from gateway.queue.settings import Admission
from gateway.queue.shares import ActiveTenant
from gateway.queue.turn import Turn, TurnRequest
from protos.errors import Overloaded, PenstockError
from routing.dispatch import Attempt
from routing.policy import ReplicaView, RoutingPolicy

#: Bounds of what a client is told to wait, and what it is told while nothing is known, in seconds.
SHORTEST_RETRY, LONGEST_RETRY, UNKNOWN_RETRY = 1.0, 120.0, 5.0
#: Over how long the rate of what is let through is averaged.
RATE_SECONDS = 5.0
#: How long the first in line finds no room before a replica is kept for it until there is some.
HOLD_SECONDS = 1.0
#: After a look at more tenants than this that let nobody through, how long to rest for each of them.
LOOKS, REST_SECONDS = 8, 100e-6


class Candidates(Protocol):
    """What the turnstile asks of a fleet."""

    on_load: Callable[[], None]

    def candidates(self) -> Sequence[ReplicaView]:
        """The replicas that can take a request now."""
        ...


class _Waiter:
    """A request that waits; `fail` ends that from outside."""

    __slots__ = ("entry", "future", "leave", "need", "request", "since", "tenant")

    def __init__(
        self, request: TurnRequest, need: Need, tenant: TenantUse, since: float, leave: "Callable[[_Waiter], None]"
    ) -> None:
        self.request = request
        self.need = need
        self.tenant = tenant
        self.since = since
        self.leave = leave
        self.entry: Entry[_Waiter]
        self.future: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return self.future.done() and not self.future.cancelled() and self.future.exception() is not None

    def fail(self, error: PenstockError) -> None:
        """End the waiting with an error; whoever has its turn already does not wait."""
        self.leave(self)
        if not self.future.done():
            self.future.set_exception(error)


class Turnstile:
    """Lets the requests of one model through as its fleet has room, by turns that are fair between tenants.

    A request that nothing waits before passes without waiting. All others stand in a fair queue, which is looked
    through whenever room may have come: after a load report, a release and a change of the fleet.
    """

    def __init__(
        self,
        fleet: Candidates,
        policy: RoutingPolicy,
        admission: Admission,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` counts seconds. The fleet's `on_load` is taken over."""
        self._fleet = fleet
        self._policy = policy
        self._watermark = admission.watermark
        self._max_waiting = admission.max_waiting
        self._clock = clock
        self._divider = Divider(admission.watermark)
        self._queue: FairQueue[_Waiter] = FairQueue()
        #: By tier's rank, each in order of arrival: the newest of the lowest is shed first.
        self._by_rank: dict[int, dict[_Waiter, None]] = {}
        self._promised: dict[str, Need] = {}
        self._blocked: _Waiter | None = None
        self._blocked_since = 0.0
        self._held: str | None = None
        self._rest_until = 0.0
        self._rest: asyncio.TimerHandle | None = None
        self._deadlines: list[tuple[float, int, _Waiter]] = []
        self._numbers = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._granted = 0  # cost let through since the rate was last worked out
        self._rate = 0.0
        self._rated_at = clock()
        fleet.on_load = self.pump

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._queue.waiting

    def depths(self) -> dict[str, int]:
        """Requests that wait, by tenant that has any."""
        return self._queue.depths()

    def active_here(self) -> list[ActiveTenant]:
        """The tenants that are active in this worker."""
        return self._divider.active_here(self._clock())

    @property
    def active_elsewhere(self) -> Sequence[ActiveTenant]:
        """The tenants that are active in any worker, as far as is known."""
        return self._divider.elsewhere

    @active_elsewhere.setter
    def active_elsewhere(self, tenants: Sequence[ActiveTenant]) -> None:
        self._divider.elsewhere = tenants

    def try_enter(self, request: TurnRequest) -> Turn | None:
        """A turn at once, if nothing waits and a replica has room; None: `enter` is the way."""
        views = self._fleet.candidates()
        if self._queue.waiting and views:
            return None
        now = self._clock()
        tenant = self._divider.seen(request.tenant, request.rank, request.weight, request.reserved, now)
        need = need_of(request)
        if not views:
            return self._grant(request, need, tenant, None)
        replica_id = self._choose(request, need, tenant, views, now)
        return None if replica_id is None else self._grant(request, need, tenant, replica_id)

    async def enter(self, request: TurnRequest, attempt: Attempt) -> Turn:
        """Wait for a turn.

        Raises Overloaded when too many wait already or the time is up, and whatever `attempt` is failed with.
        """
        now = self._clock()
        tenant = self._divider.seen(request.tenant, request.rank, request.weight, request.reserved, now)
        waiter = _Waiter(request, need_of(request), tenant, now, self._leave)
        waiter.entry = self._queue.push(request.tenant, request.weight, _cost(request), waiter)
        tenant.waiting += 1
        self._by_rank.setdefault(request.rank, {})[waiter] = None
        try:
            attempt.follow(waiter)
            if not waiter.failed:
                self._arrive(waiter, now)
            return await waiter.future
        except BaseException:
            self._leave(waiter)
            if waiter.future.done() and not waiter.failed and not waiter.future.cancelled():
                waiter.future.result().release(0)  # the task ended between being given its turn and taking it
            raise

    def _arrive(self, waiter: _Waiter, now: float) -> None:
        """Let a newcomer through, past others that found no room, if it finds some; else it waits if it may."""
        tenant, views = waiter.tenant, self._fleet.candidates()
        if tenant.waiting == 1 and views:
            replica_id = self._choose(waiter.request, waiter.need, tenant, views, now, self._held)
            if replica_id is not None:
                self._queue.serve_alone(waiter.entry)
                self._let_through(waiter, replica_id, now)
                return
        self._bound(waiter)
        if waiter.entry.waiting:
            self._set_alarm(waiter)

    def _let_through(self, waiter: _Waiter, replica_id: str, now: float) -> None:
        self._forget(waiter)
        turn = self._grant(waiter.request, waiter.need, waiter.tenant, replica_id)
        turn.charged, turn.waited_seconds = turn.cost, now - waiter.since
        waiter.future.set_result(turn)

    def pump(self) -> None:
        """Let through whoever there is room for now, in order."""
        self._divider.loads_changed()
        if not self._queue.waiting:
            return
        now = self._clock()
        views = self._fleet.candidates()
        if now < self._rest_until or not views:
            return
        looks = turns = 0

        def take(waiter: _Waiter) -> bool:
            nonlocal looks, turns
            if waiter.future.done():
                return False  # its task has been cancelled, and will take it off the queue
            first = looks == 0
            kept = None if waiter is self._blocked else self._held
            replica_id = self._choose(waiter.request, waiter.need, waiter.tenant, views, now, kept)
            if replica_id is None:
                looks += 1
                if first:
                    self._is_blocked(waiter, views, now)
                return False
            turns += 1
            self._let_through(waiter, replica_id, now)
            return True

        self._queue.serve(take)
        if looks > LOOKS and not turns:
            self._rest_until = now + looks * REST_SECONDS
            if self._rest is not None:
                self._rest.cancel()
            self._rest = asyncio.get_running_loop().call_later(looks * REST_SECONDS, self.pump)

    def expire(self) -> None:
        """End the waiting of those whose time is up; called by a timer."""
        now = self._clock()
        while self._deadlines and (self._deadlines[0][0] <= now or not self._deadlines[0][2].entry.waiting):
            waiter = heapq.heappop(self._deadlines)[2]
            if waiter.entry.waiting:
                waiter.fail(self._overloaded("The model stayed at its capacity for as long as this request may wait."))
        self._alarm = None
        if self._deadlines:
            self._arm(self._deadlines[0][0] - now)

    def _choose(
        self,
        request: TurnRequest,
        need: Need,
        tenant: TenantUse,
        views: Sequence[ReplicaView],
        now: float,
        kept: str | None = None,
    ) -> str | None:
        """The replica that the request may go to now, if there is one; not `kept`, which is another's."""
        promised, divider, policy = self._promised, self._divider, self._policy
        if promised:
            views = [with_promised(view, promised[view.id]) if view.id in promised else view for view in views]
        divider.asks(tenant, need.prompt_tokens, now)
        division = divider.division(tenant, views, now)
        lanes, avoid, shared = None, division.avoid, len(division.active) > 1
        if shared:
            if not divider.has_room(tenant, division, views):
                return None
            lanes = division.lanes.get(request.tenant)
        if lanes is None and kept is None:
            # Nearly always the policy's first choice will do, and there is no need to look at all of them.
            pleasant = [view for view in views if view.id not in avoid] if avoid else views
            first = policy.pick(request.route, pleasant or views).replica
            if fits(first, need, self._watermark) and not has_long_backlog(first):
                return first.id
        able = self._able(need, tenant, views, division)
        if not able:
            return policy.pick(request.route, views).replica.id  # none could ever: the engine will say so
        if lanes is not None:
            avoid = frozenset()
        if kept is not None:
            able = [view for view in able if view.id != kept]
        room = feasible(able, need, self._watermark, avoid)
        return policy.pick(request.route, room).replica.id if room else None

    def _able(
        self, need: Need, tenant: TenantUse, views: Sequence[ReplicaView], division: Division
    ) -> list[ReplicaView]:
        lanes = division.lanes.get(tenant.name)
        outside = 0 if lanes is None else tenant.prefill_outside(lanes)
        return usable(views, need, lanes, outside)

    def _grant(self, request: TurnRequest, need: Need, tenant: TenantUse, replica_id: str | None) -> Turn:
        cost = _cost(request)
        self._granted += cost
        self._divider.turn_given()
        if replica_id is not None:
            before = self._promised.get(replica_id)
            self._promised[replica_id] = need if before is None else sum_of(before, need)
        return Turn(request, need, tenant, replica_id, cost, self._unpromise, self._released)

    def _unpromise(self, replica_id: str, need: Need) -> None:
        promised = self._promised[replica_id]
        if promised.sequences == need.sequences:
            del self._promised[replica_id]
        else:
            self._promised[replica_id] = sum_of(promised, need, -1)

    def _released(self, turn: Turn, output_tokens: int) -> None:
        turn.tenant.seen = self._clock()
        if turn.charged is not None:
            request = turn.request
            true_cost = cost_of(request.route.prompt_tokens, output_tokens)
            self._queue.charge(request.tenant, request.weight, true_cost - turn.charged)
        self.pump()

    def _is_blocked(self, waiter: _Waiter, views: Sequence[ReplicaView], now: float) -> None:
        """The first in line found no room; after a while a replica is kept for it, where room then gathers.

        Otherwise small requests behind it could take every bit of room as it comes, and it would wait for ever.
        """
        if waiter is not self._blocked:
            self._blocked, self._blocked_since, self._held = waiter, now, None
        elif self._held is None and now - self._blocked_since >= HOLD_SECONDS:
            division = self._divider.division(waiter.tenant, views, now)
            if len(division.active) < 2 or self._divider.has_room(waiter.tenant, division, views):
                able = self._able(waiter.need, waiter.tenant, views, division)
                self._held = self._policy.pick(waiter.request.route, able).replica.id

    def _bound(self, waiter: _Waiter) -> None:
        """Shed what is beyond the tenant's and the worker's bounds."""
        request = waiter.request
        if self._queue.depth(request.tenant) > request.max_waiting:
            waiter.fail(self._overloaded("The model is at its capacity and as many of your requests wait as may."))
        elif self._queue.waiting > self._max_waiting:
            lowest = self._by_rank[max(self._by_rank)]
            next(reversed(lowest)).fail(self._overloaded("The model is at its capacity and too many requests wait."))

    def _overloaded(self, message: str) -> Overloaded:
        return Overloaded(f"{message} Try again later.", retry_after=self._retry_after())

    def _retry_after(self) -> float:
        """Seconds until what waits now will have been let through, at the rate of the last seconds."""
        now = self._clock()
        passed = now - self._rated_at
        if passed >= 1.0:
            weight = exp(-passed / RATE_SECONDS)
            self._rate = self._rate * weight + self._granted / passed * (1.0 - weight)
            self._rated_at, self._granted = now, 0
        if self._rate <= 0.0:
            return UNKNOWN_RETRY
        return min(max(self._queue.cost / self._rate, SHORTEST_RETRY), LONGEST_RETRY)

    def _leave(self, waiter: _Waiter) -> None:
        if waiter.entry.waiting:
            self._queue.remove(waiter.entry)
            self._forget(waiter)

    def _forget(self, waiter: _Waiter) -> None:
        """Whichever way it stops waiting: nothing here points to it any longer, but for a stale deadline."""
        waiter.tenant.waiting -= 1
        peers = self._by_rank[waiter.request.rank]
        del peers[waiter]
        if not peers:
            del self._by_rank[waiter.request.rank]
        if waiter is self._blocked:
            self._blocked = self._held = None
        if not self._by_rank:
            self._deadlines.clear()
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

    def _set_alarm(self, waiter: _Waiter) -> None:
        """One timer for all, at the earliest deadline."""
        if len(self._deadlines) > 2 * self._queue.waiting + LOOKS:
            self._deadlines = [deadline for deadline in self._deadlines if deadline[2].entry.waiting]
            heapq.heapify(self._deadlines)
        until = waiter.request.wait_until
        heapq.heappush(self._deadlines, (until, next(self._numbers), waiter))
        if self._alarm is None or self._deadlines[0][2] is waiter:
            self._arm(until - self._clock())

    def _arm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(max(0.0, seconds), self.expire)


def need_of(request: TurnRequest) -> Need:
    """What the request will take of a replica."""
    route, n = request.route, request.n
    prompt_tokens = route.prompt_tokens
    return Need(n, prompt_tokens, prompt_tokens + request.expected_output, prompt_tokens + n * route.max_tokens)


def _cost(request: TurnRequest) -> int:
    return cost_of(request.route.prompt_tokens, request.expected_output)
