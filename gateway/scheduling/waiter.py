"""A request in the admission queue: as it is decided now, and while it waits."""

import asyncio
from collections.abc import Callable

from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.scheduling.capacity import Demand, Need
from gateway.scheduling.division import TenantUse
from gateway.scheduling.fair_queue import Entry
from protos.errors import PenstockError
from routing.contracts.policy import RouteRequest


class Asking:
    """A request that asks for a turn, as it is decided now."""

    __slots__ = ("demand", "request", "route", "tenant")

    def __init__(self, request: AdmissionRequest, tenant: TenantUse) -> None:
        self.request = request
        self.tenant = tenant
        self.route = request.route
        self.demand = demand_of(request, request.route)


class Waiter(Asking):
    """A request that waits; `fail` ends that from outside."""

    __slots__ = ("entry", "future", "leave", "since")

    def __init__(
        self, request: AdmissionRequest, tenant: TenantUse, since: float, leave: "Callable[[Waiter], None]"
    ) -> None:
        super().__init__(request, tenant)
        self.since = since
        self.leave = leave
        self.entry: Entry[Waiter]
        self.future: asyncio.Future[Admission] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return self.future.done() and not self.future.cancelled() and self.future.exception() is not None

    def fail(self, error: PenstockError) -> None:
        """End the waiting with an error; whoever has its turn already does not wait."""
        self.leave(self)
        if not self.future.done():
            self.future.set_exception(error)


def demand_of(request: AdmissionRequest, route: RouteRequest) -> Demand:
    """What the request will take, with so much of it cached as `route` says."""
    n, prompt_tokens = request.n, route.prompt_tokens
    whole = Need(n, prompt_tokens, prompt_tokens + request.expected_output, prompt_tokens + n * route.max_tokens)
    return Demand(whole, route.cached)
