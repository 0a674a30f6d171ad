"""How a gRPC call ends: the codes of gRPC, and what HTTP's own answers mean (gRPC's http-grpc-status-mapping)."""

import enum
from typing import Final
from urllib.parse import unquote

#: Names and values of header fields.
Fields = tuple[tuple[bytes, bytes], ...]


class Status(enum.IntEnum):
    """gRPC's codes."""

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


#: The length to which a peer's text is read.
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
#: HTTP/2's error codes of a stream; others are internal.
_OF_RESET: Final = {
    0x7: Status.UNAVAILABLE,  # refused
    0x8: Status.CANCELLED,
    0xB: Status.RESOURCE_EXHAUSTED,  # "enhance your calm"
    0xC: Status.PERMISSION_DENIED,  # inadequate security
}


def of_trailers(fields: Fields) -> tuple[Status, str]:
    """What a call's last header fields say."""
    found = dict(fields)
    said, details = found.get(b"grpc-status"), found.get(b"grpc-message", b"")[:MAX_DETAILS]
    if said is None or len(said) > 2 or not said.isdigit() or int(said) > Status.UNAUTHENTICATED:
        return Status.UNKNOWN, "the call ended without a status"
    return Status(int(said)), unquote(details.decode("ascii", "replace"))


def of_http(fields: Fields) -> tuple[Status, str] | None:
    """What is wrong with the first header fields, if they do not begin an answer of gRPC."""
    found = dict(fields)
    status, kind = found.get(b":status", b""), found.get(b"content-type", b"")
    if status == b"200" and kind.startswith(b"application/grpc"):
        return None
    shown = f"an answer of HTTP, {status[:9].decode('ascii', 'replace')} {kind[:100].decode('ascii', 'replace')}"
    return _OF_HTTP.get(status, Status.UNKNOWN), shown


def of_reset(code: int) -> tuple[Status, str]:
    """What a stream's reset means."""
    return _OF_RESET.get(code, Status.INTERNAL), f"the call was reset with HTTP/2's code {code}"
