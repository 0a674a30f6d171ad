"""Record a request's body."""

from observability.digests import Digests
from observability.record import RequestRecord


def note_body(record: RequestRecord, body: bytes, digests: Digests | None) -> None:
    """Record the body's length, and its hash if hashes are wanted."""
    record.request_bytes = len(body)
    if digests is not None:
        record.request_hash = digests.of(body)
