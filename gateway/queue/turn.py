"""Leave to run, from the moment it is given to its one ending."""

from collections.abc import Callable

import msgspec

from gateway.queue.admission import Need
from gateway.queue.division import TenantUse
from routing.policy import RouteRequest


class TurnRequest(msgspec.Struct, frozen=True):
    """A request for a turn. `rank`, `weight` and `reserved` are those of the tenant's tier.

    `expected_output` is in tokens, of all `n` sequences together. It waits until `wait_until` on the turnstile's clock
    and only while no more than `max_waiting` of its tenant wait.
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


class Turn:
    """Leave for one request, for one replica; `release` is its one ending, whatever happened before.

    `replica_id` is None when no replica is there at all: dispatching then says so. `charged` is the cost that the
    fair queue was told, None when the request did not have to stand in it.
    """

    __slots__ = (
        "_prefill_at",
        "_promised_at",
        "_released",
        "_unpromise",
        "charged",
        "cost",
        "need",
        "replica_id",
        "request",
        "sent",
        "tenant",
        "waited_seconds",
    )

    def __init__(
        self,
        request: TurnRequest,
        need: Need,
        tenant: TenantUse,
        replica_id: str | None,
        cost: int,
        unpromise: Callable[[str, Need], None],
        released: Callable[["Turn", int], None],
    ) -> None:
        """`unpromise` is called when the replica's view has begun to count the request, `released` at its end."""
        self.request = request
        self.need = need
        self.tenant = tenant
        self.replica_id = replica_id
        self.cost = cost
        self.charged: int | None = None
        self.waited_seconds = 0.0
        #: Whether any replica has been asked.
        self.sent = False
        self._unpromise = unpromise
        self._released: Callable[[Turn, int], None] | None = released
        self._promised_at = replica_id
        self._prefill_at = replica_id
        tenant.cost += cost
        tenant.turns += 1
        if replica_id is not None:
            tenant.begin_prefill(replica_id, need.prompt_tokens)

    @property
    def kv_tokens(self) -> int:
        """What the request is expected to fill of the KV cache."""
        return self.need.kv_tokens

    def opened(self, replica_id: str) -> None:
        """The submit is on the wire: from now on the replica's view counts it. Called once per attempt."""
        self.sent = True
        self._keep_promise()
        if self._released is not None and replica_id != self._prefill_at:
            self.started()
            self._prefill_at = replica_id
            self.tenant.begin_prefill(replica_id, self.need.prompt_tokens)

    def started(self) -> None:
        """The prompt has been computed."""
        at, self._prefill_at = self._prefill_at, None
        if at is not None:
            self.tenant.end_prefill(at, self.need.prompt_tokens)

    def release(self, output_tokens: int) -> None:
        """The request is over, with so many output tokens. Idempotent."""
        released, self._released = self._released, None
        if released is not None:
            self._keep_promise()
            self.started()
            self.tenant.cost -= self.cost
            self.tenant.turns -= 1
            released(self, output_tokens)

    def _keep_promise(self) -> None:
        at, self._promised_at = self._promised_at, None
        if at is not None:
            self._unpromise(at, self.need)
