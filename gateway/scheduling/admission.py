"""Admission of one request: granted once, released once."""

from collections.abc import Callable

import msgspec

from gateway.scheduling.capacity import Demand, Need
from gateway.scheduling.division import TenantUse
from routing.contracts.policy import Decision, RouteRequest, RoutingPolicy


class AdmissionRequest(msgspec.Struct, frozen=True):
    """A request for admission. `rank`, `weight` and `reserved` are those of the tenant's tier.

    `expected_output` is in tokens, of all `n` sequences together. It waits until `wait_until` on the queue's clock and
    only while no more than `max_waiting` of its tenant wait. `policy` decides instead of the admission queue's own.
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


class Admission:
    """An admitted request with its routing decision; `release` is its one ending.

    `decision` is None if no replica exists, which dispatch reports. `route` is the request as it was decided on.
    `charged` is the cost charged in the fair queue; None if the request did not have to wait in it.
    """

    __slots__ = (
        "_drop_promise",
        "_prefill_at",
        "_prefill_tokens",
        "_promises",
        "_released",
        "charged",
        "cost",
        "decision",
        "demand",
        "request",
        "route",
        "sent",
        "tenant",
        "waited_seconds",
    )

    def __init__(
        self,
        request: AdmissionRequest,
        route: RouteRequest,
        demand: Demand,
        tenant: TenantUse,
        decision: Decision | None,
        cost: int,
        promises: dict[str, Need],
        drop_promise: Callable[[str, Need], None],
        released: Callable[["Admission", int], None],
    ) -> None:
        """`promises` are by replica; `drop_promise` is called when a replica's view has begun to count the request, or
        never will, and `released` at its end.
        """
        self.request = request
        self.route = route
        self.demand = demand
        self.tenant = tenant
        self.decision = decision
        self.cost = cost
        self.charged: int | None = None
        self.waited_seconds = 0.0
        #: Whether a submit was sent to any replica.
        self.sent = False
        self._promises = promises
        self._drop_promise = drop_promise
        self._released: Callable[[Admission, int], None] | None = released
        self._prefill_at: str | None = None
        self._prefill_tokens = 0
        tenant.cost += cost
        tenant.admitted += 1
        if decision is not None:
            self._begin_prefill(decision.entry.id)

    @property
    def replica_id(self) -> str | None:
        """The first replica for the request."""
        return self.decision.entry.id if self.decision is not None else None

    @property
    def kv_tokens(self) -> int:
        """Expected KV cache use, in tokens."""
        return self.demand.whole.kv_tokens

    def opened(self, replica_id: str, *, computes: bool = True) -> None:
        """Count a submit on the wire, which the replica's view counts from now on. Called once per submit.

        `computes`: the prompt is computed there, and not handed over.
        """
        self.sent = True
        need = self._promises.pop(replica_id, None)
        if need is not None:
            self._drop_promise(replica_id, need)
        else:
            self._drop_promises()
        if self._released is not None and replica_id != self._prefill_at and computes:
            self.started()
            self._begin_prefill(replica_id)

    def started(self) -> None:
        """The prompt has been computed."""
        at, self._prefill_at = self._prefill_at, None
        if at is not None:
            self.tenant.end_prefill(at, self._prefill_tokens)

    def release(self, output_tokens: int) -> None:
        """End the admission after `output_tokens` output tokens. Idempotent."""
        released, self._released = self._released, None
        if released is not None:
            self._drop_promises()
            self.started()
            self.tenant.cost -= self.cost
            self.tenant.admitted -= 1
            released(self, output_tokens)

    def _begin_prefill(self, replica_id: str) -> None:
        self._prefill_at, self._prefill_tokens = replica_id, self.demand.prompt_tokens_at(replica_id)
        self.tenant.begin_prefill(replica_id, self._prefill_tokens)

    def _drop_promises(self) -> None:
        """Release capacity promised at replicas that the request will not use."""
        while self._promises:
            self._drop_promise(*self._promises.popitem())
