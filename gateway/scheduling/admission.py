"""Admission of one request: granted once, released once."""

from typing import Protocol

import msgspec

from gateway.scheduling.capacity import Demand, Need, parts_of
from gateway.scheduling.division import TenantUse
from gateway.scheduling.fair_queue import cost_of
from routing.contracts.policy import Decision, RouteRequest, RoutingPolicy


class AdmissionRequest(msgspec.Struct, frozen=True):
    """A request for admission. `rank`, `weight` and `reserved` are those of the tenant's tier.

    `expected_output` is in tokens, of all `n` sequences together. Its tier lets it wait until `wait_until` on the
    queue's clock and only while no more than `max_waiting` of its tenant wait. `policy` decides instead of the
    admission queue's own.
    """

    request_id: str
    tenant: str
    rank: int
    weight: float
    reserved: float
    route: RouteRequest
    expected_output: int
    n: int
    wait_until: float
    max_waiting: int
    policy: RoutingPolicy | None = None


class PendingRequest:
    """A request for admission with its current route and demand, and its cost as expected."""

    def __init__(self, request: AdmissionRequest, tenant: TenantUse) -> None:
        self.request = request
        self.tenant = tenant
        self.route = route = request.route
        self.demand = demand_of(request, route)
        self.cost = cost_of(route.prompt_tokens, request.expected_output)


class Queue(Protocol):
    """The admission queue as its admissions see it."""

    #: The last admission, until it is sent or promised.
    unsent: "Admission | None"

    def drop_promise(self, replica_id: str, need: Need) -> None:
        """A replica's view has begun to count a promised need, or never will."""
        ...

    def released(self, admission: "Admission", output_tokens: int) -> None:
        """An admission has ended."""
        ...


class Admission(PendingRequest):
    """A request that is admitted, or asks to be, with its routing decision; `release` is its one ending.

    `decision` is None if no replica exists, which dispatch reports. `route` is the request as it was decided on.
    `charged` is the cost charged in the fair queue; None if the request did not have to wait in it. `promises` are the
    needs counted at replicas whose views do not count them yet, by replica. `prefill_at` is the replica that computes
    its `prefill_tokens`; empty once they are computed.
    """

    decision: Decision | None = None
    charged: int | None = None
    waited_seconds = 0.0
    #: Whether a submit was sent to any replica.
    sent = False
    promises: dict[str, Need] | None = None
    prefill_at = ""
    prefill_tokens = 0
    queue: Queue | None = None

    def decide(self, decision: Decision) -> None:
        """Take the decision on an admission, and count its prompt where it will be computed."""
        self.decision = decision
        self._compute_at((decision.prefill or decision.replica).id)

    @property
    def replica_id(self) -> str | None:
        """The first replica for the request."""
        return self.decision.entry.id if self.decision is not None else None

    @property
    def kv_tokens(self) -> int:
        """Expected KV cache use, in tokens."""
        return self.demand.whole.kv_tokens

    def needs(self) -> dict[str, Need]:
        """Return what it needs at the replicas of its decision."""
        return {} if self.decision is None else {view.id: self.demand.at(view) for view in parts_of(self.decision)}

    def opened(self, replica_id: str, *, computes: bool = True) -> None:
        """Count a submit on the wire, which the replica's view counts from now on. Called once per submit.

        `computes`: the prompt is computed there, and not handed over.
        """
        self.sent = True
        queue = self.queue
        if queue is None:
            return
        if queue.unsent is self:
            queue.unsent = None
        elif self.promises:
            self._keep_promise(replica_id)
        if replica_id != self.prefill_at and computes:
            self.started()
            self._compute_at(replica_id)

    def started(self) -> None:
        """The prompt has been computed."""
        if self.prefill_at:
            tenant = self.tenant
            tenant.computing.discard(self)
            tenant.prefill_tokens -= self.prefill_tokens
            self.prefill_at = ""

    def release(self, output_tokens: int) -> None:
        """End the admission after `output_tokens` output tokens. Idempotent."""
        queue = self.queue
        if queue is None:
            return
        if queue.unsent is self:
            queue.unsent = None
        elif self.promises:
            self._drop_promises()
        if self.prefill_at:
            self.started()
        self.queue = None
        queue.released(self, output_tokens)

    def _compute_at(self, replica_id: str) -> None:
        """Count the prompt at the replica that computes it."""
        demand, tenant = self.demand, self.tenant
        tokens = demand.prompt_tokens_at(replica_id) if demand.cached else demand.whole.prompt_tokens
        self.prefill_at, self.prefill_tokens = replica_id, tokens
        tenant.computing.add(self)
        tenant.prefill_tokens += tokens

    def _keep_promise(self, replica_id: str) -> None:
        """Release what was promised at a replica that counts the request now; all, if it is none of those decided."""
        if self.promises and replica_id in self.promises and self.queue is not None:
            self.queue.drop_promise(replica_id, self.promises.pop(replica_id))
        else:
            self._drop_promises()

    def _drop_promises(self) -> None:
        """Release capacity promised at replicas that the request will not use."""
        while self.promises and self.queue is not None:
            self.queue.drop_promise(*self.promises.popitem())


def demand_of(request: AdmissionRequest, route: RouteRequest) -> Demand:
    """The demand of a request, given the cached prompt tokens in `route`."""
    n, tokens = request.n, route.prompt_tokens
    return Demand(Need(n, tokens, tokens + request.expected_output, tokens + n * route.max_tokens), route.cached)
