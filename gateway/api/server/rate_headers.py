"""The `x-ratelimit-*` headers, as OpenAI's clients read them (API reference, rate limits)."""

from functools import lru_cache

from gateway.tenancy.limits.limiter import Rate, duration


def rate_headers(rate: Rate | None) -> list[tuple[bytes, bytes]]:
    """Make the headers for requests and tokens, where limited: limit, remaining, and time until all of it is free."""
    headers: list[tuple[bytes, bytes]] = []
    if rate is None:
        return headers
    room = rate.requests
    if room.limit:
        headers += (
            (b"x-ratelimit-limit-requests", b"%d" % room.limit),
            (b"x-ratelimit-remaining-requests", b"%d" % room.remaining),
            (b"x-ratelimit-reset-requests", _reset(room.reset_ms)),
        )
    room = rate.tokens
    if room.limit:
        headers += (
            (b"x-ratelimit-limit-tokens", b"%d" % room.limit),
            (b"x-ratelimit-remaining-tokens", b"%d" % room.remaining),
            (b"x-ratelimit-reset-tokens", _reset(room.reset_ms)),
        )
    return headers


def _reset(milliseconds: int) -> bytes:
    # Whole seconds are few and recur.
    return duration(milliseconds).encode() if milliseconds < 1000 else _whole_seconds(-(-milliseconds // 1000))


@lru_cache(maxsize=1024)
def _whole_seconds(seconds: int) -> bytes:
    return duration(seconds * 1000).encode()
