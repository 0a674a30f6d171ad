"""From a request to a replica that answers it: pick, attempt, and try another until the first event."""

import logging

from protos.errors import PenstockError, ReplicaFailed, ReplicaUnavailable, from_failure
from protos.types import Submit
from routing.fleet import Fleet
from routing.policy import RouteRequest, RoutingPolicy
from routing.transport import Event, TokenStream

log = logging.getLogger(__name__)

#: Replicas tried for one request, each at most once.
MAX_ATTEMPTS = 3


class Dispatched:
    """A request under way: its stream, where it runs, and the events that already came."""

    __slots__ = ("_first", "fingerprint", "replica_id", "stream")

    def __init__(self, stream: TokenStream, replica_id: str, fingerprint: str, first: list[Event]) -> None:
        self.stream = stream
        self.replica_id = replica_id
        self.fingerprint = fingerprint
        self._first = first

    async def receive(self) -> list[Event]:
        """The next events, beginning with those that proved the attempt."""
        if self._first:
            first, self._first = self._first, []
            return first
        return await self.stream.receive()

    def close(self) -> None:
        """End the request, upstream too. Idempotent."""
        self.stream.close()


class Attempt:
    """One request's way through the fleet. `fail` may be called at any moment from outside the task that runs it."""

    __slots__ = ("_error", "_stream")

    def __init__(self) -> None:
        self._stream: TokenStream | None = None
        self._error: PenstockError | None = None

    def fail(self, error: PenstockError) -> None:
        """End the request with an error: a client that left, or a deadline."""
        self._error = error
        if self._stream is not None:
            self._stream.fail(error)

    def follow(self, stream: TokenStream) -> None:
        """The stream that `fail` reaches from now on."""
        self._stream = stream
        if self._error is not None:
            stream.fail(self._error)


async def dispatch(
    fleet: Fleet, policy: RoutingPolicy, request: RouteRequest, submit: Submit, attempt: Attempt
) -> Dispatched:
    """Returns with the first events in hand, so that whatever can go wrong before them still sets a status.

    A replica that is lost or draining before its first event costs the client nothing: the next one is tried.
    Raises ReplicaUnavailable when none is left, and the errors of protos/errors.py that the engine reports.
    """
    tried: list[str] = []
    while True:
        candidates = fleet.candidates(exclude=tried)
        if not candidates:
            raise ReplicaUnavailable("No replica of this model can take the request now.", retry_after=1.0)
        replica_id = policy.pick(request, candidates).replica.id
        tried.append(replica_id)
        stream: TokenStream | None = None
        try:
            stream = fleet.open(replica_id, submit)
            attempt.follow(stream)
            first = await stream.receive()
            check(first)
            return Dispatched(stream, replica_id, fleet.fingerprint(replica_id), first)
        except BaseException as error:
            if stream is not None:
                stream.close()
            if not isinstance(error, ReplicaUnavailable | ReplicaFailed) or len(tried) >= MAX_ATTEMPTS:
                raise
            log.warning("request %s: replica %s failed before its first token", request.request_id, replica_id)


def check(events: list[Event]) -> None:
    """Raises the error that a finish reports, if one does."""
    for _, _, _, finish in events:
        if finish is not None and finish.failure is not None:
            failure = finish.failure
            raise from_failure(failure.code, failure.message, failure.param)
