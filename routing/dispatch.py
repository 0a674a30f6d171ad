"""From a request to a replica that answers it: pick, attempt, and try another until the first event."""

import logging
from typing import Protocol

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


class Failable(Protocol):
    """Whatever a request is waiting for at the moment: a stream, or its turn in a queue."""

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        ...

    def fail(self, error: PenstockError) -> None:
        """End it with an error, which whoever waits for it then raises."""
        ...


class Turn(Protocol):
    """Leave to run that was given for one replica; told what becomes of the request there."""

    @property
    def replica_id(self) -> str | None:
        """Where the first attempt goes; None: wherever the policy says."""
        ...

    @property
    def kv_tokens(self) -> int:
        """What the request is expected to fill of the KV cache."""
        ...

    def opened(self, replica_id: str) -> None:
        """The request is on its way to that replica, and counts in its view. Called once per attempt."""
        ...

    def started(self) -> None:
        """The replica has computed the prompt."""
        ...


class Attempt:
    """One request's way through the fleet. `fail` may be called at any moment from outside the task that runs it."""

    __slots__ = ("_awaited", "_error")

    def __init__(self) -> None:
        self._awaited: Failable | None = None
        self._error: PenstockError | None = None

    @property
    def failed(self) -> bool:
        """Whether the request has ended with an error, which its task may not have noticed yet."""
        return self._error is not None or (self._awaited is not None and self._awaited.failed)

    def fail(self, error: PenstockError) -> None:
        """End the request with an error: a client that left, or a deadline."""
        self._error = error
        if self._awaited is not None:
            self._awaited.fail(error)

    def check(self) -> None:
        """Raises the error that the request has been ended with, if it has."""
        if self._error is not None:
            raise self._error

    def follow(self, awaited: Failable) -> None:
        """What `fail` reaches from now on."""
        self._awaited = awaited
        if self._error is not None:
            awaited.fail(self._error)


async def dispatch(
    fleet: Fleet,
    policy: RoutingPolicy,
    request: RouteRequest,
    submit: Submit,
    attempt: Attempt,
    turn: Turn | None = None,
) -> Dispatched:
    """Returns with the first events in hand, so that whatever can go wrong before them still sets a status.

    The first attempt goes where the turn was given, if that replica is still there. One that is lost or draining
    before its first event costs the client nothing: the policy picks the next.
    Raises ReplicaUnavailable when none is left, and the errors of protos/errors.py that the engine reports.
    """
    attempt.check()
    tried: list[str] = []
    failure: PenstockError = ReplicaUnavailable("No replica of this model can take the request now.", retry_after=1.0)
    while True:
        replica_id = turn.replica_id if turn is not None and not tried else None
        if replica_id is None or not fleet.takes(replica_id):
            candidates = fleet.candidates(exclude=tried)
            if not candidates:
                raise failure
            replica_id = policy.pick(request, candidates).replica.id
        tried.append(replica_id)
        stream: TokenStream | None = None
        try:
            if turn is None:
                stream = fleet.open(replica_id, submit)
            else:
                stream = fleet.open(replica_id, submit, turn.kv_tokens)
                stream.on_start = turn.started
                turn.opened(replica_id)
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
