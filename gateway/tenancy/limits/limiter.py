"""The seam of limits: a reservation before a request runs, and its one ending."""

import math
from typing import Protocol

import msgspec

from gateway.tenancy.limits.plan import Plan


class Usage(msgspec.Struct, frozen=True):
    """Token counts over all sequences; `cached` of the prompt's tokens were in the replica's KV cache."""

    prompt: int
    completion: int
    cached: int


class Room(msgspec.Struct, frozen=True):
    """The tightest limit of a minute, on requests or on tokens: `limit` 0 is none, `reset_ms` until all is free."""

    limit: int = 0
    remaining: int = 0
    reset_ms: int = 0


class Rate(msgspec.Struct, frozen=True):
    """What the `x-ratelimit-*` headers tell."""

    requests: Room
    tokens: Room


class Ask(msgspec.Struct, frozen=True):
    """What a request wants: `input` tokens of prompt, and `most` tokens of output over its `sequences`."""

    plan: Plan
    input: int
    most: int
    sequences: int


class Lease(Protocol):
    """A reservation. Exactly one of its endings counts, the first one; none of them waits or raises."""

    @property
    def output(self) -> int:
        """Output tokens that the request is expected to have, over its sequences."""
        ...

    def settle(self, usage: Usage) -> None:
        """The request ended, whatever way, and this is what it used."""
        ...

    def release(self, *, rejected: bool = False) -> None:
        """The request used nothing; `rejected`: because the gateway would not run it."""
        ...


class Limiter(Protocol):
    """Reserves all that a request needs, or nothing."""

    def last_rate(self, key_id: str) -> Rate | None:
        """What a key's latest reservation here left; None before one, and where nothing limits."""
        ...

    async def reserve(self, ask: Ask) -> Lease:
        """Raises RateLimited, QuotaExceeded or StoreUnavailable."""
        ...


def duration(milliseconds: int) -> str:
    """As OpenAI writes them: `12ms`, `7s`, `6m0s`. Rounded up, so that waiting so long is enough."""
    if milliseconds < 1000:
        return f"{max(0, milliseconds)}ms"
    minutes, seconds = divmod(math.ceil(milliseconds / 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
