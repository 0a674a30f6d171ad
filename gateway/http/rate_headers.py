"""`x-ratelimit-*` on every answer, as OpenAI's clients read them (API reference, rate limits)."""

from gateway.limits.limiter import Rate, Room, duration


def rate_headers(rate: Rate | None) -> list[tuple[bytes, bytes]]:
    """Limit, what remains of it and the time until all of it is free, for requests and for tokens where limited."""
    if rate is None:
        return []
    return [*_headers(b"requests", rate.requests), *_headers(b"tokens", rate.tokens)]


def _headers(kind: bytes, room: Room) -> list[tuple[bytes, bytes]]:
    if not room.limit:
        return []
    return [
        (b"x-ratelimit-limit-" + kind, b"%d" % room.limit),
        (b"x-ratelimit-remaining-" + kind, b"%d" % room.remaining),
        (b"x-ratelimit-reset-" + kind, duration(room.reset_ms).encode()),
    ]
