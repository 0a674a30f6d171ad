"""A request in the admission queue, with its current route and demand."""

import asyncio
from collections.abc import Callable

from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.scheduling.capacity import Demand, Need
from gateway.scheduling.division import TenantUse
from gateway.scheduling.fair_queue import Entry
from protos.errors import PenstockError
from routing.contracts.policy import RouteRequest


class PendingRequest:
    """A request for admission with its current route and demand."""

    __slots__ = ("demand", "request", "route", "tenant")

    def __init__(self, request: AdmissionRequest, tenant: TenantUse) -> None:
        self.request = request
        self.tenant = tenant
        self.route = request.route
        self.demand = demand_of(request, request.route)


class Waiter(PendingRequest):
    """A waiting request; `fail` ends the wait."""

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
        """Whether the wait has ended with an error."""
        return self.future.done() and not self.future.cancelled() and self.future.exception() is not None

    def fail(self, error: PenstockError) -> None:
        """End the wait with an error; no effect on an admitted request."""
        self.leave(self)
        if not self.future.done():
            self.future.set_exception(error)


def demand_of(request: AdmissionRequest, route: RouteRequest) -> Demand:
    """The demand of a request, given the cached prompt tokens in `route`."""
    n, prompt_tokens = request.n, route.prompt_tokens
    whole = Need(n, prompt_tokens, prompt_tokens + request.expected_output, prompt_tokens + n * route.max_tokens)
    return Demand(whole, route.cached)
