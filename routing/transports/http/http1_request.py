"""One request to an upstream and what comes of it: told at once, by whoever reads the wire."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

#: Names in lower case.
Headers = Mapping[bytes, bytes]


class Fault(enum.Enum):
    """What kind of thing went wrong on the way."""

    #: No connection could be made.
    UNREACHABLE = "unreachable"
    #: The connection was lost before the answer's end.
    CUT = "cut"
    #: Nothing came for too long.
    TIMEOUT = "timeout"
    #: What came is not HTTP, or over a bound.
    NONSENSE = "nonsense"


class HttpFailure(Exception):
    """No answer, or no whole one. `problem` is for the log."""

    def __init__(self, fault: Fault, problem: str) -> None:
        super().__init__(problem)
        self.fault = fault
        self.problem = problem


class Carrier(Protocol):
    """What carries an exchange now: an attempt to connect, or a connection."""

    def cancel(self) -> object:
        """Nobody wants the answer: end it. The exchange is told nothing more."""
        ...

    def pause(self) -> None:
        """Read nothing for now."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def soon(self, ticks: int) -> None:
        """Whatever is wanted of the answer has come: its end should, within so many ticks of the pool."""
        ...


class Http1Request(ABC):
    """A request's bytes, head and body, and the ear for its answer.

    `answered`, `received` for each part of the body, then `ended`; or `failed` in place of what is left. They must not
    raise, nor wait. After `cancel` there are no more calls.
    """

    __slots__ = ("carrier", "request", "retried")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.carrier: Carrier | None = None
        #: Whether a kept connection turned out to be closed, and it was sent again.
        self.retried = False

    @abstractmethod
    def answered(self, status: int, headers: Headers) -> None:
        """The answer's head."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """A part of the answer's body, as it came."""

    @abstractmethod
    def ended(self) -> None:
        """The answer is whole."""

    @abstractmethod
    def failed(self, failure: HttpFailure) -> None:
        """Nothing more comes."""

    def cancel(self) -> None:
        """End it wherever it is, with its connection. Idempotent."""
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            carrier.cancel()

    def pause(self) -> None:
        """Let nothing more come for now."""
        if self.carrier is not None:
            self.carrier.pause()

    def resume(self) -> None:
        """Let it come again."""
        if self.carrier is not None:
            self.carrier.resume()
