"""What a simulation plays: requests with their arrival, and how a trace is cut, repeated and played at another rate."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from loadtest.simulation.block_names import renamed


class TimedRequest(msgspec.Struct, frozen=True):
    """One request of a trace: `arrival` in seconds since the trace began.

    `chain` are the prefix hashes of its prompt's full KV blocks, empty where the trace does not tell what is shared.
    """

    arrival: float
    prompt_tokens: int
    output_tokens: int
    chain: Sequence[int] = ()


def native_rate(requests: Sequence[TimedRequest]) -> float:
    """Requests per second of the trace as it is; infinite when all arrive at once. Raises ValueError for none."""
    if not requests:
        raise ValueError("there are no requests")
    span = requests[-1].arrival - requests[0].arrival
    return (len(requests) - 1) / span if span > 0 else float("inf")


def bounded(requests: Sequence[TimedRequest], count: int) -> list[TimedRequest]:
    """The first `count` requests; where the trace has fewer it begins again, one mean gap after its end.

    Each time round has prefixes of its own, as what is shared then was shared by requests of the first time round
    only: the repetition of a whole trace would find everything cached.
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
    """The same requests in the same order with every gap longer or shorter by one factor, from time 0 on.

    A trace's bursts keep their form, and what shares a prefix still does; only time runs differently.
    """
    start, factor = requests[0].arrival, native_rate(requests) / rate
    if factor == float("inf"):
        return with_gaps(requests, [1 / rate] * len(requests))
    return [TimedRequest((r.arrival - start) * factor, r.prompt_tokens, r.output_tokens, r.chain) for r in requests]


def with_gaps(requests: Sequence[TimedRequest], gaps: Sequence[float]) -> list[TimedRequest]:
    """The same requests in the same order, each so many seconds after the one before it."""
    return [
        TimedRequest(arrival, r.prompt_tokens, r.output_tokens, r.chain)
        for r, arrival in zip(requests, accumulate(gaps), strict=True)
    ]
