"""The headers of an answer that tells an error."""

import math

from gateway.api.server.compression import ACCEPTED
from protos.errors import PenstockError, UnsupportedEncoding


def error_headers(error: PenstockError) -> list[tuple[bytes, bytes]]:
    """Make the headers that OpenAI's clients and HTTP (RFC 9110) expect with an error."""
    headers: list[tuple[bytes, bytes]] = []
    if error.retry_after is not None:
        # Rounded up, so that a client that waits so long finds room.
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after))))
        headers.append((b"retry-after-ms", b"%d" % math.ceil(error.retry_after * 1000)))
    if error.status >= 500 or error.status == 429:
        # OpenAI's clients would repeat these; they obey this header first.
        headers.append((b"x-should-retry", b"true" if error.retryable else b"false"))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, UnsupportedEncoding):
        headers.append((b"accept-encoding", ACCEPTED))
    return headers
