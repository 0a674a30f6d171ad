"""A request's record, once its body is there."""

from observability.digests import Digests
from observability.record import RequestRecord


def note_body(record: RequestRecord, body: bytes, digests: Digests | None) -> None:
    """How long the body is, and its hash if those are wanted."""
    record.request_bytes = len(body)
    if digests is not None:
        record.request_hash = digests.of(body)
