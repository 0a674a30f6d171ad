"""Status codes of gRPC calls, and their mapping from HTTP statuses (gRPC's http-grpc-status-mapping)."""

import enum
from typing import Final
from urllib.parse import unquote

#: Header fields as (name, value).
Fields = tuple[tuple[bytes, bytes], ...]


class Status(enum.IntEnum):
    """gRPC's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


#: Length to which a peer's text is cut.
MAX_DETAILS: Final = 2000
_OF_HTTP: Final = {
    b"401": Status.UNAUTHENTICATED,
    b"403": Status.PERMISSION_DENIED,
    b"404": Status.UNIMPLEMENTED,
    b"429": Status.UNAVAILABLE,
    b"502": Status.UNAVAILABLE,
    b"503": Status.UNAVAILABLE,
    b"504": Status.UNAVAILABLE,
}
#: Error codes of HTTP/2 stream resets -> status; others are INTERNAL.
_OF_RESET: Final = {
    0x7: Status.UNAVAILABLE,  # refused
    0x8: Status.CANCELLED,
    0xB: Status.RESOURCE_EXHAUSTED,  # "enhance your calm"
    0xC: Status.PERMISSION_DENIED,  # inadequate security
}


def of_trailers(fields: Fields) -> tuple[Status, str]:
    """Return status and details from a call's trailers."""
    found = dict(fields)
    said, details = found.get(b"grpc-status"), found.get(b"grpc-message", b"")[:MAX_DETAILS]
    if said is None or len(said) > 2 or not said.isdigit() or int(said) > Status.UNAUTHENTICATED:
        return Status.UNKNOWN, "the call ended without a status"
    return Status(int(said)), unquote(details.decode("ascii", "replace"))


def of_http(fields: Fields) -> tuple[Status, str] | None:
    """Return status and details if the first header fields do not begin a gRPC answer."""
    found = dict(fields)
    status, kind = found.get(b":status", b""), found.get(b"content-type", b"")
    if status == b"200" and kind.startswith(b"application/grpc"):
        return None
    shown = f"an answer of HTTP, {status[:9].decode('ascii', 'replace')} {kind[:100].decode('ascii', 'replace')}"
    return _OF_HTTP.get(status, Status.UNKNOWN), shown


def of_reset(code: int) -> tuple[Status, str]:
    """Return status and details for a stream reset."""
    return _OF_RESET.get(code, Status.INTERNAL), f"the call was reset with HTTP/2's code {code}"
