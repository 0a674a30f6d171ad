"""The limiter seam: a reservation before a request runs, and its one ending."""

import math
from typing import Protocol

import msgspec

from gateway.tenancy.limits.plan import Plan


class Usage(msgspec.Struct, frozen=True):
    """Token counts over all sequences; `cached` of the prompt's tokens were in the replica's KV cache.

    `extra` is what some of the tokens cost beside these prices (sound, writes to a cache), in nanodollars.
    """

    prompt: int
    completion: int
    cached: int
    extra: int = 0


class Room(msgspec.Struct, frozen=True):
    """The tightest limit per minute on requests or tokens: `limit` 0 is none, `reset_ms` until it is unused."""

    limit: int = 0
    remaining: int = 0
    reset_ms: int = 0


class Rate(msgspec.Struct, frozen=True):
    """The values of the `x-ratelimit-*` headers."""

    requests: Room
    tokens: Room


class Ask(msgspec.Struct, frozen=True):
    """A request's reservation: `input` tokens of prompt, and at most `most` output tokens over its `sequences`."""

    plan: Plan
    input: int
    most: int
    sequences: int


class Lease(Protocol):
    """A reservation. Only the first call of `settle` or `release` counts; neither waits or raises."""

    @property
    def output(self) -> int:
        """Expected output tokens of the request, over its sequences."""
        ...

    def settle(self, usage: Usage) -> None:
        """End the reservation with the request's actual use."""
        ...

    def release(self, *, rejected: bool = False) -> None:
        """End the reservation without use; `rejected`: the gateway refused to run the request."""
        ...


class Limiter(Protocol):
    """Reserves from all limits of a request, or from none."""

    def last_rate(self, key_id: str) -> Rate | None:
        """Rate limits after a key's latest reservation in this worker; None before one, and without limits."""
        ...

    async def reserve(self, ask: Ask) -> Lease:
        """Reserve from the limits. Raises RateLimited, QuotaExceeded or StoreUnavailable."""
        ...


def duration(milliseconds: int) -> str:
    """Format a duration as OpenAI does: `12ms`, `7s`, `6m0s`. Rounded up, so that such a wait is long enough."""
    if milliseconds < 1000:
        return f"{max(0, milliseconds)}ms"
    minutes, seconds = divmod(math.ceil(milliseconds / 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
