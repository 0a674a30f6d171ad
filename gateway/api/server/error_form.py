"""Error forms: how an API writes errors; every endpoint has one. The headers are the same in all."""

import math
from collections.abc import Callable
from typing import NamedTuple

from gateway.api.server.compression import ACCEPTED
from gateway.api.server.openai_errors import error_body, error_event
from protos.errors import PenstockError, UnsupportedEncoding


class ErrorForm(NamedTuple):
    """The encoders of an error: as a body, and as the last event of a stream."""

    body: Callable[[PenstockError], bytes]
    event: Callable[[PenstockError], bytes]


OPENAI_ERRORS = ErrorForm(error_body, error_event)


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
