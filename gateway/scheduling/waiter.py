"""A request that waits in the admission queue."""

import asyncio
from collections.abc import Callable

from gateway.scheduling.admission import Admission, AdmissionRequest, PendingRequest
from gateway.scheduling.division import TenantUse
from gateway.scheduling.fair_queue import Entry
from protos.errors import PenstockError, ReplicaUnavailable


class Waiter(PendingRequest):
    """A waiting request; `fail` ends the wait. It waits from `since` `until` at most, on the queue's clock."""

    def __init__(
        self,
        request: AdmissionRequest,
        tenant: TenantUse,
        since: float,
        until: float,
        leave: "Callable[[Waiter], None]",
    ) -> None:
        super().__init__(request, tenant)
        self.since = since
        self.until = until
        self.leave = leave
        self.entry: Entry[Waiter]
        self.future: asyncio.Future[Admission] = asyncio.get_running_loop().create_future()

    @property
    def refusal(self) -> str:
        """The result of an admission that is refused for want of room."""
        return "deferred" if self.tenant.background else "shed"

    @property
    def failed(self) -> bool:
        """Whether the wait has ended with an error."""
        return self.future.done() and not self.future.cancelled() and self.future.exception() is not None

    def fail(self, error: PenstockError) -> None:
        """End the wait with an error; no effect on an admitted request."""
        self.leave(self)
        if not self.future.done():
            self.future.set_exception(error)


def no_replica() -> ReplicaUnavailable:
    """Make the error of a request that no replica can take."""
    return ReplicaUnavailable("No replica of this model can take the request now.")
