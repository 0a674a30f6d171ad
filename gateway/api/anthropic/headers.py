"""Rate-limit headers of Anthropic's API, sent beside OpenAI's."""

import time
from functools import lru_cache

from gateway.tenancy.limits.limiter import Rate, Room

_Headers = list[tuple[bytes, bytes]]


def rate_headers(rate: Rate | None) -> _Headers:
    """Make `anthropic-ratelimit-*`, with the numbers of `x-ratelimit-*` and RFC 3339 times."""
    headers: _Headers = []
    if rate is not None:
        _add_room(headers, b"anthropic-ratelimit-requests", rate.requests)
        _add_room(headers, b"anthropic-ratelimit-tokens", rate.tokens)
    return headers


def _add_room(headers: _Headers, name: bytes, room: Room) -> None:
    if room.limit:
        headers += (
            (name + b"-limit", b"%d" % room.limit),
            (name + b"-remaining", b"%d" % room.remaining),
            (name + b"-reset", _moment(-(-int(time.time() * 1000 + room.reset_ms) // 1000))),
        )


@lru_cache(maxsize=256)
def _moment(seconds: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)).encode()
