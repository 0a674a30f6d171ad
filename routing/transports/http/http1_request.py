"""One HTTP/1.1 exchange with an upstream: the request's bytes and the callbacks for its answer."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

#: Header names are in lower case.
Headers = Mapping[bytes, bytes]


class Fault(enum.Enum):
    """The kind of a failure."""

    #: No connection could be opened.
    UNREACHABLE = "unreachable"
    #: The connection was lost before the answer's end.
    CUT = "cut"
    #: No data came for too long.
    TIMEOUT = "timeout"
    #: The answer is not HTTP or exceeds a bound.
    NONSENSE = "nonsense"


class HttpFailure(Exception):
    """The exchange failed before its answer was complete. `problem` is for the log."""

    def __init__(self, fault: Fault, problem: str) -> None:
        super().__init__(problem)
        self.fault = fault
        self.problem = problem


class Carrier(Protocol):
    """The owner of an exchange: an attempt to connect, or a connection."""

    def cancel(self) -> object:
        """Abort the exchange, which gets no more callbacks."""
        ...

    def pause(self) -> None:
        """Pause reading."""
        ...

    def resume(self) -> None:
        """Resume reading."""
        ...

    def expect_end(self, ticks: int) -> None:
        """Close unless the answer ends within this many ticks of the pool; all that is needed of it has come."""
        ...


class Http1Request(ABC):
    """A request's bytes (head and body) and the callbacks for its answer.

    The order is `answered`, `received` for each part of the body, then `ended`; or `failed` instead of the rest. They
    must not raise or wait. After `cancel` there are no more calls.
    """

    __slots__ = ("carrier", "request", "retried")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.carrier: Carrier | None = None
        #: Whether it was sent again because a kept connection turned out to be closed.
        self.retried = False

    @abstractmethod
    def answered(self, status: int, headers: Headers) -> None:
        """Take the answer's head."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Take a part of the answer's body, as it came."""

    @abstractmethod
    def ended(self) -> None:
        """The answer is complete."""

    @abstractmethod
    def failed(self, failure: HttpFailure) -> None:
        """The exchange failed; nothing more comes."""

    def cancel(self) -> None:
        """Abort the exchange and its connection. Idempotent."""
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            carrier.cancel()

    def pause(self) -> None:
        """Pause the answer."""
        if self.carrier is not None:
            self.carrier.pause()

    def resume(self) -> None:
        """Resume the answer."""
        if self.carrier is not None:
            self.carrier.resume()
