"""The admission queue of a model whose replicas are started for it: while none serves, requests wait for the first."""

import math
import time
from collections.abc import Callable, Mapping

from gateway.config.admission import AdmissionSettings
from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.scheduling.candidates import Candidates
from gateway.scheduling.capacity import servable
from gateway.scheduling.waiter import Waiter
from protos.errors import Overloaded, ReplicaUnavailable
from routing.contracts.policy import RouteRequest, RoutingPolicy
from routing.contracts.versions import VERSIONS
from routing.dispatch.dispatch import RequestHandle


class QueueAtZero(AdmissionQueue):
    """An admission queue that keeps requests while its fleet has no replica, at most `wait_seconds` each.

    They stand in the same fair order and under the same bounds as those that wait for room. A request that waits
    already when the last replica goes stays for as long as its tier lets it.
    """

    keeps_at_zero = True

    def __init__(
        self,
        fleet: Candidates,
        policy: RoutingPolicy,
        admission: AdmissionSettings,
        wait_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        cached: Callable[[RouteRequest], Mapping[str, int]] = lambda route: {},
    ) -> None:
        super().__init__(fleet, policy, admission, clock, cached)
        self._wait_seconds = wait_seconds
        #: Called when a request begins to wait while there is no replica.
        self.on_wait: Callable[[], None] = lambda: None
        #: The seconds until a first replica is expected; infinite where an operator keeps the model at zero.
        self.first_replica_in: Callable[[], float] = lambda: wait_seconds

    @property
    def at_zero(self) -> bool:
        """Whether no replica can serve a request now."""
        return not servable(self._fleet.candidates())

    def awaits(self, needs: int) -> bool:
        """Whether there is no replica of the version that is needed, if one is, and one will be started for it."""
        return not servable(self._fleet.candidates((), needs & VERSIONS)) and self.first_replica_in() < math.inf

    def try_enter(self, request: AdmissionRequest) -> Admission | None:
        """Admit at once if nothing waits and a replica has room; None otherwise: use `enter`."""
        return None if self.awaits(request.route.needs) else super().try_enter(request)

    async def enter(self, request: AdmissionRequest, handle: RequestHandle, gives_up: float = math.inf) -> Admission:
        """Wait for admission, and before that for a first replica, at most until the client `gives_up`.

        Raises ReplicaUnavailable when there was none in time, and what the other queue raises.
        """
        if not self.awaits(request.route.needs):
            return await super().enter(request, handle, gives_up)
        handle.waits_at_zero = True
        self.on_wait()
        try:
            return await super().enter(request, handle, gives_up)
        finally:
            handle.waits_at_zero = False

    def _until(self, request: AdmissionRequest, gives_up: float, now: float) -> float:
        if self.awaits(request.route.needs):
            return min(now + self._wait_seconds, gives_up)
        return super()._until(request, gives_up, now)

    def _shed(self, waiter: Waiter, message: str) -> None:
        if not self.awaits(waiter.route.needs):
            super()._shed(waiter, message)
            return
        self.admissions[waiter.request.rank, waiter.refusal] += 1
        seconds = max(1.0, self.first_replica_in())
        again = f"Try again in {math.ceil(seconds)} seconds."
        if waiter.until > self._clock():
            message = f"The model has no replica yet and too many requests wait for it. {again}"
            waiter.fail(Overloaded(message, retry_after=seconds))
            return
        message = f"The model's first replica was not ready for as long as this request may wait. {again}"
        waiter.fail(ReplicaUnavailable(message, retry_after=seconds))
