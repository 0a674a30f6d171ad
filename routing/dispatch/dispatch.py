"""Dispatches an admitted request and waits for the first events of its answer."""

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
from routing.dispatch.growing_stream import stream_kind
from routing.dispatch.routed import note_route


class Dispatched(msgspec.Struct, frozen=True):
    """A request in flight: its stream, the first events, and the fingerprint of the engine that made them."""

    stream: AnswerStream
    first: list[Event]
    fingerprint: str


class Failable(Protocol):
    """Something a request waits for: a stream, or its place in the admission queue."""

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        ...

    def fail(self, error: PenstockError) -> None:
        """End it with an error, which its waiter then raises."""
        ...


class RequestHandle(msgspec.Struct, eq=False):
    """A running request. Any task may call `fail` at any moment to end it.

    `waits_at_zero`: it waits for a first replica of its model to be started.
    """

    waits_at_zero: bool = False
    _awaited: Failable | None = None
    _error: PenstockError | None = None
    _interruption: PenstockError | None = None

    @property
    def failed(self) -> bool:
        """Whether the request has been failed; its task may not have noticed yet."""
        return self._error is not None or (self._awaited is not None and self._awaited.failed)

    def fail(self, error: PenstockError) -> None:
        """End the request with an error, such as a client's disconnect or a deadline."""
        self._error = error
        if self._awaited is not None:
            self._awaited.fail(error)

    def interrupt(self, error: PenstockError) -> None:
        """End what the request waits for with an error; after `renew` it may wait for something else."""
        self._interruption = error
        if self._awaited is not None:
            self._awaited.fail(error)

    def renew(self) -> None:
        """Clear an interruption: the request goes on with something else."""
        self._awaited = self._interruption = None

    def check(self) -> None:
        """Raise the error that the request was failed with, if any."""
        error = self._error or self._interruption
        if error is not None:
            raise error

    def follow(self, awaited: Failable) -> None:
        """Set what `fail` ends from now on."""
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
    """Send a request and return with its first events, so that an earlier failure still sets the HTTP status.

    The first attempt follows the admission's decision, if that is still possible. When a replica is lost or drains, the
    request goes on elsewhere, before its first token (at most `migration.MAX_ATTEMPTS` replicas in all) and after it,
    which the stream does not show. The caller must `close` the stream.
    When it fails, the replicas that were tried are noted in `record`.
    Raises ReplicaUnavailable when no replica is left, and the errors of protos/errors.py that the engine reports.
    """
    handle.check()
    dispatch_context.budget.add_request()
    kind = FailoverStream if dispatch_context.plain else stream_kind(dispatch_context)
    stream = kind(dispatch_context, route, submit, admission)
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
