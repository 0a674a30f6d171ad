"""Requests with arrival times, and functions that cut, repeat and rescale a trace."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from loadtest.simulation.block_names import renamed


class TimedRequest(msgspec.Struct, frozen=True):
    """One request of a trace: `arrival` in seconds since the trace began.

    `chain` are the prefix hashes of its prompt's full KV blocks, empty where the trace has no shared prefixes.
    """

    arrival: float
    prompt_tokens: int
    output_tokens: int
    chain: Sequence[int] = ()


def native_rate(requests: Sequence[TimedRequest]) -> float:
    """Return the trace's own requests per second; infinite when all arrive at once. Raises ValueError if empty."""
    if not requests:
        raise ValueError("there are no requests")
    span = requests[-1].arrival - requests[0].arrival
    return (len(requests) - 1) / span if span > 0 else float("inf")


def bounded(requests: Sequence[TimedRequest], count: int) -> list[TimedRequest]:
    """Return the first `count` requests; a shorter trace is repeated, one mean gap after its end.

    Each repetition has its own prefixes, since a repetition with the same ones would find everything cached.
    """
    lap, start = list(requests[:count]), requests[0].arrival
    rate = native_rate(lap)
    length = requests[-1].arrival - start + (0.0 if rate == float("inf") else 1 / rate)
    played = lap.copy()
    number = 0
    while len(played) < count:
        number += 1
        played += (
            TimedRequest(
                request.arrival + number * length,
                request.prompt_tokens,
                request.output_tokens,
                renamed(request.chain, number),
            )
            for request in requests[: count - len(played)]
        )
    return played


def at_rate(requests: Sequence[TimedRequest], rate: float) -> list[TimedRequest]:
    """Return the requests with all gaps scaled by one factor, from time 0 on.

    Bursts keep their form and shared prefixes stay; only time is rescaled.
    """
    start, factor = requests[0].arrival, native_rate(requests) / rate
    if factor == float("inf"):
        return with_gaps(requests, [1 / rate] * len(requests))
    return [TimedRequest((r.arrival - start) * factor, r.prompt_tokens, r.output_tokens, r.chain) for r in requests]


def with_gaps(requests: Sequence[TimedRequest], gaps: Sequence[float]) -> list[TimedRequest]:
    """Return the requests with these gaps in seconds between them."""
    return [
        TimedRequest(arrival, r.prompt_tokens, r.output_tokens, r.chain)
        for r, arrival in zip(requests, accumulate(gaps), strict=True)
    ]
