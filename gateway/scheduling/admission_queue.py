"""The admission queue of one model: admits requests as replicas have room, in fair order."""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy

import msgspec

from gateway.config.admission import AdmissionSettings
from gateway.scheduling.admission import Admission, AdmissionRequest, PendingRequest, demand_of
from gateway.scheduling.admission_rate import AdmissionRate
from gateway.scheduling.candidates import PLAIN, Candidates, Kind, kind_of
from gateway.scheduling.capacity import (
    Need,
    feasible,
    has_room,
    parts_of,
    servable,
    sum_of,
    sums_of,
    usable,
    with_promised,
)
from gateway.scheduling.deadlines import Deadlines
from gateway.scheduling.division import Divider, Division
from gateway.scheduling.fair_queue import FairQueue, cost_of
from gateway.scheduling.hold import Hold
from gateway.scheduling.objections import objections
from gateway.scheduling.shares import ActiveTenant
from gateway.scheduling.waiter import Waiter, no_replica
from gateway.scheduling.wide_requests import WIDE, awaits_width, fits_nowhere, late_message, long_waits, queue_kind
from protos.errors import InternalError, Overloaded
from routing.contracts.policy import BetterWait, Decision, NoCandidate, ReplicaView, RouteRequest, RoutingPolicy
from routing.contracts.versions import NAMED, VERSIONS
from routing.dispatch.dispatch import RequestHandle

log = logging.getLogger(__name__)

#: After refusing more requests than this in a row, pause for so many seconds per refused request.
MAX_REFUSALS, REST_SECONDS = 8, 300e-6
#: Maximum age, in seconds, of a waiting request's time and cached tokens, which change as others fill the caches.
STALE_SECONDS = 0.25
_Views = Sequence[ReplicaView]
_Ids = frozenset[str]
_NO_REPLICAS: _Ids = frozenset()


class AdmissionQueue:
    """Admits the requests of one model as its fleet has room, fairly between tenants.

    A request that nothing waits before passes without waiting. All others stand in a fair queue, which is looked
    through whenever room may have come: after a load report, a release and a change of the fleet.
    """

    #: Whether requests wait while the fleet has no replica.
    keeps_at_zero = False

    def __init__(
        self,
        fleet: Candidates,
        policy: RoutingPolicy,
        admission: AdmissionSettings,
        clock: Callable[[], float] = time.monotonic,
        cached: Callable[[RouteRequest], Mapping[str, int]] = lambda route: {},
    ) -> None:
        """`clock` counts seconds; `cached` gives cached prompt tokens by replica. Takes over the fleet's `on_load`."""
        #: Admissions by tier rank and outcome, as the metrics declare the outcomes.
        self.admissions: Counter[tuple[int, str]] = Counter()
        self._fleet = fleet
        self._policy = policy
        self._watermark = admission.watermark
        self._max_waiting = admission.max_waiting
        self._clock = clock
        self._cached = cached
        self.divider = Divider(admission.watermark)
        self._queue: FairQueue[Waiter] = FairQueue()
        #: By tier rank, in order of arrival: the newest of the lowest tier is shed first.
        self._by_rank: dict[int, dict[Waiter, None]] = {}
        self._promised: dict[str, Need] = {}
        #: The last admission, until it is sent: nearly always before the next decision, so that its need is counted by
        #: views and need not be promised.
        self.unsent: Admission | None = None
        self._hold = Hold()
        self._rest_until = 0.0
        self._rest: asyncio.TimerHandle | None = None
        self.deadlines = Deadlines(clock, self._late)
        self._rate = AdmissionRate(clock())
        fleet.on_load = self.pump

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return self._queue.waiting

    @property
    def oldest_wait(self) -> float:
        """For how many seconds the oldest waiting request has waited; 0 where none waits."""
        first = [next(iter(peers)).since for peers in self._by_rank.values()]
        return max(0.0, self._clock() - min(first)) if first else 0.0

    def depths(self) -> dict[str, int]:
        """Number of waiting requests by tenant, without zeros."""
        return self._queue.depths()

    def long_waits(self, over: int) -> list[tuple[int, float]]:
        """The KV tokens that waiting requests need which need more than `over`, each with the seconds it has waited."""
        return long_waits(self._waiters(), self._fleet, over, self._clock())

    def active_here(self) -> list[ActiveTenant]:
        return self.divider.active_here(self._clock())

    @property
    def active_elsewhere(self) -> Sequence[ActiveTenant]:
        """The tenants that are active in any worker, as far as known."""
        return self.divider.elsewhere

    @active_elsewhere.setter
    def active_elsewhere(self, tenants: Sequence[ActiveTenant]) -> None:
        self.divider.elsewhere = tenants

    def try_enter(self, request: AdmissionRequest) -> Admission | None:
        """Admit at once if nothing waits and a replica has room; None otherwise: use `enter`."""
        route, now = request.route, self._clock()
        whole = views = servable(self._fleet.candidates())
        needs = route.needs
        if needs or route.adapter:
            for view in views:
                if needs & ~view.features or route.adapter:
                    views = self._views(route)
                    break
        if self._queue.waiting and views:
            return None
        tenant = self.divider.seen(request.tenant, request.rank, request.weight, request.reserved, now)
        admission = Admission(request, tenant)
        decision: Decision | None = None
        if not views:
            if self.awaits(needs):
                return None
        else:
            decision = self._choose(admission, views, now, _NO_REPLICAS, whole)
            if decision is None:
                return None
            self.admissions[request.rank, "at_once"] += 1
        self._grant(admission, decision)
        return admission

    async def enter(self, request: AdmissionRequest, handle: RequestHandle, gives_up: float = math.inf) -> Admission:
        """Wait for admission, at most until the client `gives_up`.

        Raises Overloaded when too many wait or the time is up, and what fails `handle`.
        """
        now = self._clock()
        tenant = self.divider.seen(request.tenant, request.rank, request.weight, request.reserved, now)
        waiter = Waiter(request, tenant, now, self._until(request, gives_up, now), self._leave)
        kind = queue_kind(request, self._fleet)
        waiter.entry = self._queue.push(request.tenant, request.weight, waiter.cost, waiter, kind)
        tenant.waiting += 1
        self._by_rank.setdefault(request.rank, {})[waiter] = None
        try:
            handle.follow(waiter)
            if not waiter.failed:
                self._arrive(waiter, now)
            return await waiter.future
        except BaseException:
            self._leave(waiter)
            if waiter.future.done() and not waiter.failed and not waiter.future.cancelled():
                waiter.future.result().release(0)  # the task ended between its admission and receiving it
            raise

    def consider(self, request: AdmissionRequest) -> Decision | None:
        """The decision for a request if it were admitted now; None if it would wait. Has no effect."""
        hypothetical, views, now = copy(self), self._views(request.route), self._clock()
        hypothetical._promised, hypothetical.unsent = self._all_promised(), None
        divider = hypothetical.divider = self.divider.hypothetical(request.tenant)
        pending = PendingRequest(
            request, divider.seen(request.tenant, request.rank, request.weight, request.reserved, now)
        )
        return hypothetical._choose(pending, views, now, self._hold.replicas) if views else None

    def objections(self, request: AdmissionRequest) -> dict[str, str]:
        """The reason against each replica now, by id; no entry for a replica without one. Has no effect."""
        divider, now = self.divider.hypothetical(request.tenant), self._clock()
        views = self._fleet.candidates((), request.route.needs, request.route.adapter)
        tenant = divider.seen(request.tenant, request.rank, request.weight, request.reserved, now)
        demand = demand_of(request, request.route)
        promised, held = self._all_promised(), self._hold.replicas
        return objections(views, promised, demand, tenant, divider, now, self._watermark, held)

    def move_waiting(self, gone: int, version: int) -> int:
        """Let requests that wait for a version of `gone`, by its bit, and did not name it, wait for another one."""
        moved = [waiter for waiter in self._waiters() if waiter.route.needs & gone and not waiter.route.needs & NAMED]
        for waiter in moved:
            waiter.route = msgspec.structs.replace(waiter.route, needs=waiter.route.needs & ~gone | version)
            self._queue.change_kind(waiter.entry, kind_of(waiter.route, self._fleet.candidates()))
        return len(moved)

    def _waiters(self) -> list[Waiter]:
        return [waiter for peers in self._by_rank.values() for waiter in peers]

    def _until(self, request: AdmissionRequest, gives_up: float, now: float) -> float:
        """Until when a request that comes `now` may wait."""
        return min(request.wait_until, gives_up)

    def _views(self, route: RouteRequest) -> _Views:
        """The replicas that can serve the request now."""
        return servable(self._fleet.candidates((), route.needs, route.adapter))

    def _arrive(self, waiter: Waiter, now: float) -> None:
        """Admit a new request if there is room, ahead of others that found none; else queue it within the bounds."""
        views = self._views(waiter.route)
        if views and (waiter.tenant.waiting == 1 or self._queue.is_alone(waiter.entry, WIDE)):
            decision = self._choose(waiter, views, now, self._hold.replicas)
            if decision is not None:
                self._queue.serve_alone(waiter.entry)
                self._admit(waiter, decision, now)
                return
        self._enforce_bounds(waiter)
        if waiter.entry.waiting:
            self.deadlines.add(waiter, self._queue.waiting)

    def _admit(self, waiter: Waiter, decision: Decision, now: float) -> None:
        self._forget(waiter)
        admission = Admission(waiter.request, waiter.tenant)
        admission.route, admission.demand = waiter.route, waiter.demand
        self._grant(admission, decision)
        admission.charged, admission.waited_seconds = admission.cost, now - waiter.since
        self.admissions[waiter.request.rank, "waited" if admission.waited_seconds else "at_once"] += 1
        waiter.future.set_result(admission)

    def pump(self) -> None:
        """Admit, in fair order, all requests that there is room for; reject all if the fleet has no replica."""
        self.divider.use = None
        if not self._queue.waiting:
            return
        now = self._clock()
        all_views = servable(self._fleet.candidates())
        if not all_views:
            self._reject_all()
        if now < self._rest_until or not all_views:
            return
        refusals = admitted = 0
        by_kind: dict[Kind, _Views] = {PLAIN: all_views}

        def take(waiter: Waiter) -> bool:
            nonlocal refusals, admitted
            if waiter.future.done():
                return False  # its task has been cancelled, and will remove it from the queue
            kind, first = kind_of(waiter.route, all_views), refusals == 0
            views = by_kind.get(kind)
            if views is None:
                views = by_kind[kind] = self._views(waiter.route)
            if not views:
                if not self.awaits(waiter.route.needs):
                    waiter.future.set_exception(no_replica())
                return False
            held = _NO_REPLICAS if waiter is self._hold.waiter else self._hold.replicas
            try:
                decision = self._choose(waiter, views, now, held)
                if decision is None:
                    if waiter.entry.kind is WIDE and fits_nowhere(waiter, views):
                        return False
                    refusals += 1
                    if first:
                        self._is_blocked(waiter, views, now)
                    return False
            except Exception:
                # The error fails this request, and not the session of the replica whose report called `pump`.
                log.exception("no decision on request %s", waiter.request.request_id)
                waiter.future.set_exception(InternalError("The gateway failed on this request."))
                return False
            admitted += 1
            self._admit(waiter, decision, now)
            return True

        self._queue.serve(take)
        if refusals > MAX_REFUSALS and not admitted:
            self._rest_until = now + refusals * REST_SECONDS
            if self._rest is not None:
                self._rest.cancel()
            self._rest = asyncio.get_running_loop().call_later(refusals * REST_SECONDS, self.pump)

    def _reject_all(self) -> None:
        for waiter in self._waiters():
            if not self.awaits(waiter.route.needs):
                waiter.fail(no_replica())

    def awaits(self, needs: int) -> bool:
        """Whether requests with these needs wait while no replica serves: here for members of host groups alone."""
        return self._fleet.awaits_member and not servable(self._fleet.candidates((), needs & VERSIONS))

    def _late(self, waiter: Waiter) -> None:
        self._shed(waiter, late_message(waiter))

    def _choose(
        self, pending: PendingRequest, views: _Views, now: float, held: _Ids = _NO_REPLICAS, whole: _Views | None = None
    ) -> Decision | None:
        """Choose a replica for the request now, but none of `held`, which are for another one; None: it must wait.

        `whole` are the views of all replicas, where they are known.
        """
        try:
            if now - pending.route.now > STALE_SECONDS:
                self._refresh(pending, now)
            if self.unsent is not None:
                self._promise()
            return self._decide(pending, views, now, held, whole)
        except BetterWait:
            return None

    def _decide(
        self, pending: PendingRequest, views: _Views, now: float, held: _Ids, whole: _Views | None
    ) -> Decision | None:
        route, promised = pending.route, self._promised
        # Shares are of the whole fleet, whatever part of it can serve this request.
        if whole is None:
            whole = servable(self._fleet.candidates()) if route.needs or route.adapter else views
        division = self.divider.division(pending.tenant, pending.demand, whole, now)
        if promised:
            views = [with_promised(view, promised[view.id]) if view.id in promised else view for view in views]
            if not (route.needs or route.adapter):
                whole = views
        lanes = None
        preferred, avoid = views, division.avoid
        if division.is_shared:
            if not self.divider.has_room(pending.tenant, division, whole):
                return None
            lanes = division.lanes.get(pending.tenant.name)
            if avoid:
                preferred = servable([view for view in views if view.id not in avoid]) or views
        if lanes is None and not held:
            # Nearly always the policy's first choice has room, and the other replicas need not be checked.
            try:
                first = (pending.request.policy or self._policy).pick(route, preferred)
                if has_room(first, pending.demand, self._watermark):
                    return first
            except NoCandidate:
                pass
            except BetterWait:
                if self._usable(pending, views, division):
                    raise
                # Else waiting makes no room for it.
        usable_views = self._usable(pending, views, division)
        if not usable_views:
            # No replica could ever hold it: the engine will refuse it, unless one can become wide enough.
            return None if awaits_width(pending, self._fleet) else self._pick(pending, views, may_wait=False)
        if lanes is not None:
            avoid = _NO_REPLICAS
        if held:
            usable_views = servable([view for view in usable_views if view.id not in held])
        room = feasible(usable_views, pending.demand, self._watermark, avoid)
        return self._pick(pending, room) if room else None

    def _refresh(self, pending: PendingRequest, now: float) -> None:
        """Update the time and the cached tokens of a request that has waited."""
        pending.route = msgspec.structs.replace(pending.route, now=now, cached=self._cached(pending.route))
        pending.demand = demand_of(pending.request, pending.route)

    def _pick(self, pending: PendingRequest, views: _Views, *, may_wait: bool = True) -> Decision | None:
        """Let the policy choose; None if it accepts none of the views. Raises BetterWait if `may_wait`."""
        route = pending.route if may_wait else msgspec.structs.replace(pending.route, may_wait=False)
        try:
            return (pending.request.policy or self._policy).pick(route, views)
        except NoCandidate:
            return None

    def _usable(self, pending: PendingRequest, views: _Views, division: Division) -> _Views:
        lanes = division.lanes.get(pending.tenant.name)
        outside = 0 if lanes is None else pending.tenant.prefill_outside(lanes)
        return usable(views, pending.demand, lanes, outside)

    def _grant(self, admission: Admission, decision: Decision | None) -> None:
        cost = admission.cost
        admission.queue = self
        self._rate.granted += cost
        self.divider.request_admitted(admission.tenant, cost)
        if decision is not None:
            admission.decide(decision)
            self.unsent = admission
            if decision.prefill is not None:
                self._promise()

    def _promise(self) -> None:
        """Count the need of an admission that is not on its way yet."""
        last, self.unsent = self.unsent, None
        if last is not None:
            last.promises = last.needs()
            self._promised = sums_of(self._promised, last.promises)

    def _all_promised(self) -> dict[str, Need]:
        """Return the promised needs by replica, with that of the last admission."""
        return self._promised if self.unsent is None else sums_of(self._promised, self.unsent.needs())

    def drop_promise(self, replica_id: str, need: Need) -> None:
        promised = self._promised[replica_id]
        if promised.sequences == need.sequences:
            del self._promised[replica_id]
        else:
            self._promised[replica_id] = sum_of(promised, need, -1)

    def released(self, admission: Admission, output_tokens: int) -> None:
        self.divider.request_ended(admission.tenant, admission.cost, self._clock())
        if admission.charged is not None:
            request = admission.request
            true_cost = cost_of(request.route.prompt_tokens, output_tokens)
            self._queue.charge(request.tenant, request.weight, true_cost - admission.charged)
        if self._queue.waiting:
            self.pump()

    def _is_blocked(self, waiter: Waiter, views: _Views, now: float) -> None:
        """Note that the first in line found no room; after a while, hold a replica for it."""
        if self._hold.is_due(waiter, views, now):
            division = self.divider.division(waiter.tenant, waiter.demand, views, now)
            if not division.is_shared or self.divider.has_room(waiter.tenant, division, views):
                decision = self._pick(waiter, self._usable(waiter, views, division) or views, may_wait=False)
                self._hold.replicas = frozenset(view.id for view in parts_of(decision)) if decision else _NO_REPLICAS

    def _enforce_bounds(self, waiter: Waiter) -> None:
        """Shed requests beyond the tenant's and the worker's bounds."""
        request = waiter.request
        if self._queue.depth(request.tenant) > request.max_waiting:
            self._shed(waiter, "The model is at its capacity and as many of your requests wait as may.")
        elif self._queue.waiting > self._max_waiting:
            lowest = self._by_rank[max(self._by_rank)]
            self._shed(next(reversed(lowest)), "The model is at its capacity and too many requests wait.")

    def _shed(self, waiter: Waiter, message: str) -> None:
        self.admissions[waiter.request.rank, waiter.refusal] += 1
        retry_after = self._rate.retry_after(self._queue.cost, self._clock())
        waiter.fail(Overloaded(f"{message} Try again later.", retry_after=retry_after))

    def _leave(self, waiter: Waiter) -> None:
        if waiter.entry.waiting:
            self._queue.remove(waiter.entry)
            self._forget(waiter)

    def _forget(self, waiter: Waiter) -> None:
        """Remove a waiter from all records except a stale deadline."""
        waiter.tenant.waiting -= 1
        peers = self._by_rank[waiter.request.rank]
        del peers[waiter]
        if not peers:
            del self._by_rank[waiter.request.rank]
        self._hold.forget(waiter)
        if not self._by_rank:
            self.deadlines.clear()
