"""From a request to a replica that answers it: pick, attempt, and try another until the first event."""

import logging

import msgspec

from protos.errors import PenstockError, ReplicaFailed, ReplicaUnavailable, from_failure
from protos.types import Finish, FinishReason, Submit
from routing.fleet import Fleet
from routing.policy import RouteRequest, RoutingPolicy
from routing.transport import Event, TokenStream

log = logging.getLogger(__name__)

#: Replicas tried for one request, each at most once.
MAX_ATTEMPTS = 3


class Dispatched(msgspec.Struct, frozen=True):
    """A request under way: its stream, the events that already came from it, and where it runs."""

    stream: TokenStream
    first: list[Event]
    replica_id: str
    fingerprint: str


class Attempt:
    """One request's way through the fleet. `fail` may be called at any moment from outside the task that runs it."""

    __slots__ = ("_error", "_stream")

    def __init__(self) -> None:
        self._stream: TokenStream | None = None
        self._error: PenstockError | None = None

    @property
    def failed(self) -> bool:
        """Whether the request has ended with an error, which its task may not have noticed yet."""
        return self._error is not None or (self._stream is not None and self._stream.failed)

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
    failure: PenstockError = ReplicaUnavailable("No replica of this model can take the request now.", retry_after=1.0)
    while True:
        candidates = fleet.candidates(exclude=tried)
        if not candidates:
            raise failure
        replica_id = policy.pick(request, candidates).replica.id
        tried.append(replica_id)
        stream: TokenStream | None = None
        try:
            stream = fleet.open(replica_id, submit)
            attempt.follow(stream)
            first = await stream.receive()
            for event in first:
                if event[3] is not None:
                    check(event[3])
            return Dispatched(stream, first, replica_id, fleet.fingerprint(replica_id))
        except BaseException as error:
            if stream is not None:
                stream.close()
            if not isinstance(error, ReplicaUnavailable | ReplicaFailed) or len(tried) >= MAX_ATTEMPTS:
                raise
            if isinstance(error, ReplicaFailed) and isinstance(failure, ReplicaFailed):
                raise  # two engines failed on it: it may be what kills them
            failure = error
            log.warning(
                "request %s: replica %s failed before its first token: %s",
                request.request_id,
                replica_id,
                error.detail or error.message,
            )


def check(finish: Finish) -> None:
    """Raises the error that a finish reports, if it reports one."""
    if finish.failure is not None:
        raise from_failure(finish.failure.code, finish.failure.message, finish.failure.param)
    if finish.reason not in (FinishReason.STOP, FinishReason.LENGTH):
        raise ReplicaFailed("The model's engine ended this request.")
