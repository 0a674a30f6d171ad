"""One gRPC call on a connection: sends its message and delivers each message of the answer as it arrives."""

from typing import Final, Protocol

from routing.transports.http2.grpc_status import Status

_PREFIX_BYTES: Final = 5
_UNCOMPRESSED: Final = 0


class Handler(Protocol):
    """Callbacks of a call, called by the connection's reader: they neither wait nor raise."""

    def received(self, message: bytes) -> None:
        """Take the answer's next message."""
        ...

    def ended(self, status: Status, details: str) -> None:
        """The call has ended; called once, and not after `Call.cancel`."""
        ...


class Carrier(Protocol):
    """The connection of a call."""

    def end(self, call: "Call", status: Status, details: str) -> None:
        """Reset a call and end its handler."""
        ...

    def cancel(self, call: "Call") -> None:
        """Reset a call without calling its handler."""
        ...


class Call:
    """A call in flight. `pending` are the bytes of its message beyond the peer's flow-control `window`."""

    __slots__ = (
        "_carrier",
        "_largest",
        "_missing",
        "_partial",
        "answered",
        "handler",
        "number",
        "open",
        "pending",
        "taken",
        "window",
    )

    def __init__(self, number: int, handler: Handler, carrier: Carrier, window: int, largest: int) -> None:
        """`largest` bounds a message, in bytes."""
        self.number = number
        self.handler = handler
        self.window = window
        self.pending = memoryview(b"")
        self.open = True
        #: Whether the answer has begun.
        self.answered = False
        #: Bytes received and not yet acknowledged by a window update.
        self.taken = 0
        self._carrier = carrier
        self._largest = largest
        self._partial = bytearray()
        self._missing = 0  # bytes to wait for before `_partial` can be parsed

    def cancel(self) -> None:
        """Cancel the call at the peer; its handler gets no more callbacks. Idempotent."""
        if self.open:
            self._carrier.cancel(self)

    def feed(self, payload: bytes) -> None:
        """Take a part of the answer."""
        partial = self._partial
        if not partial and len(payload) >= _PREFIX_BYTES:
            # Nearly always a frame is one message.
            size = int.from_bytes(payload[1:_PREFIX_BYTES], "big")
            if size == len(payload) - _PREFIX_BYTES and payload[0] == _UNCOMPRESSED and size <= self._largest:
                self.handler.received(payload[_PREFIX_BYTES:])
                return
        partial += payload
        self._missing -= len(payload)
        if self._missing <= 0:
            self._parse()

    def _parse(self) -> None:
        partial, at = self._partial, 0
        while self.open and len(partial) - at >= _PREFIX_BYTES:
            size = int.from_bytes(partial[at + 1 : at + _PREFIX_BYTES], "big")
            if partial[at] != _UNCOMPRESSED:
                self._carrier.end(self, Status.INTERNAL, "a compressed message, which was not offered")
                return
            if size > self._largest:
                problem = f"Received message larger than max ({size} vs. {self._largest})"
                self._carrier.end(self, Status.RESOURCE_EXHAUSTED, problem)
                return
            end = at + _PREFIX_BYTES + size
            if len(partial) < end:
                self._missing = end - len(partial)
                break
            message = bytes(partial[at + _PREFIX_BYTES : end])
            at = end
            self.handler.received(message)
        del partial[:at]

    @property
    def complete(self) -> bool:
        """Whether no message is incomplete."""
        return not self._partial


def framed(message: bytes) -> bytes:
    """Return a message with gRPC's length prefix."""
    return b"\x00" + len(message).to_bytes(4, "big") + message
