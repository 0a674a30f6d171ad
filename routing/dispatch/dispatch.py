"""From a request that has its turn to the first events of its answer."""

from typing import Protocol

import msgspec

from observability.record import RequestRecord
from protos.errors import PenstockError
from protos.types import Submit
from routing.contracts.policy import RouteRequest
from routing.contracts.transport import Event
from routing.dispatch.answer_stream import AnswerStream
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.failover_stream import Admission, FailoverStream
from routing.dispatch.routed import note_route


class Dispatched(msgspec.Struct, frozen=True):
    """A request under way: its stream, the events that already came from it, and the engine that made them."""

    stream: AnswerStream
    first: list[Event]
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


class RequestHandle:
    """One request's way through the fleet. `fail` may be called at any moment from outside the task that runs it."""

    __slots__ = ("_awaited", "_error", "_interruption")

    def __init__(self) -> None:
        self._awaited: Failable | None = None
        self._error: PenstockError | None = None
        self._interruption: PenstockError | None = None

    @property
    def failed(self) -> bool:
        """Whether the request has ended with an error, which its task may not have noticed yet."""
        return self._error is not None or (self._awaited is not None and self._awaited.failed)

    def fail(self, error: PenstockError) -> None:
        """End the request with an error: a client that left, or a deadline."""
        self._error = error
        if self._awaited is not None:
            self._awaited.fail(error)

    def interrupt(self, error: PenstockError) -> None:
        """End what the request does at the moment with an error; after `renew` it may go on with something else."""
        self._interruption = error
        if self._awaited is not None:
            self._awaited.fail(error)

    def renew(self) -> None:
        """What the request did has come to nothing, and it goes on with something else."""
        self._awaited = self._interruption = None

    def check(self) -> None:
        """Raises the error that the request has been ended with, if it has."""
        error = self._error or self._interruption
        if error is not None:
            raise error

    def follow(self, awaited: Failable) -> None:
        """What `fail` reaches from now on."""
        self._awaited = awaited
        error = self._error or self._interruption
        if error is not None:
            awaited.fail(error)


async def dispatch(
    dispatch_context: DispatchContext,
    route: RouteRequest,
    submit: Submit,
    handle: RequestHandle,
    admission: Admission | None = None,
    record: RequestRecord | None = None,
) -> Dispatched:
    """Returns with the first events in hand, so that whatever can go wrong before them still sets a status.

    The first attempt goes where the turn was given, if that is still possible. A replica that is lost or draining costs
    the client nothing: the request goes on elsewhere, before its first token (at most `migration.MAX_ATTEMPTS` replicas
    in all) and after it, and its stream does not show where. The caller must `close` the stream.
    Where it comes to nothing, `record` tells where it was tried.
    Raises ReplicaUnavailable when no replica is left, and the errors of protos/errors.py that the engine reports.
    """
    handle.check()
    dispatch_context.budget.asked()
    stream = FailoverStream(dispatch_context, route, submit, admission)
    try:
        stream.begin()
        handle.follow(stream)
        first = await stream.receive()
        return Dispatched(stream, first, dispatch_context.fleet.fingerprint(stream.replica_id))
    except BaseException:
        stream.close()
        if record is not None:
            note_route(record, stream)
        raise
