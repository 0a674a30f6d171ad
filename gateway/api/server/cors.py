"""Cross-Origin Resource Sharing (the Fetch standard, 3.2): which origins' pages may read answers."""

import re
from collections.abc import Iterable
from typing import Final

from starlette.types import Scope

from gateway.api.server.http_exchange import HttpExchange
from gateway.config.listen import ANY_ORIGIN, Cors

#: Answer headers that pages may read.
EXPOSED: Final = (
    b"x-request-id, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    b"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, retry-after, retry-after-ms, "
    b"x-should-retry, x-penstock-version, x-penstock-adjusted, x-penstock-route, x-penstock-fallback"
)
#: A list of header names; clients have many of their own.
_NAMES: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
_LONGEST_NAMES: Final = 4096


class CrossOrigin:
    """The allowed origins, and the CORS headers of answers."""

    def __init__(self, settings: Cors) -> None:
        self._any = ANY_ORIGIN in settings.origins
        self._origins = frozenset(origin.encode() for origin in settings.origins)
        self._max_age = b"%d" % settings.max_age_seconds

    def mark(self, exchange: HttpExchange, scope: Scope) -> None:
        """Add the CORS headers to the exchange's answer, whatever it will be."""
        if not self._any:
            # A cache must not show one origin's answer to another.
            exchange.fixed_headers.append((b"vary", b"origin"))
        origin = _header(scope, b"origin")
        if origin is not None and (self._any or origin in self._origins):
            allowed = ANY_ORIGIN.encode() if self._any else origin
            exchange.fixed_headers += (
                (b"access-control-allow-origin", allowed),
                (b"access-control-expose-headers", EXPOSED),
            )

    def preflight(self, scope: Scope, methods: Iterable[str]) -> list[tuple[bytes, bytes]] | None:
        """Make the headers that answer a preflight request; None where the request is none."""
        if scope["method"] != "OPTIONS" or _header(scope, b"access-control-request-method") is None:
            return None
        headers = [
            (b"access-control-allow-methods", ", ".join(methods).encode()),
            (b"access-control-max-age", self._max_age),
        ]
        wanted = _header(scope, b"access-control-request-headers") or b""
        if len(wanted) <= _LONGEST_NAMES and _NAMES.fullmatch(wanted):
            headers.append((b"access-control-allow-headers", wanted))
        return headers


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((bytes(value) for key, value in scope["headers"] if key == name), None)
