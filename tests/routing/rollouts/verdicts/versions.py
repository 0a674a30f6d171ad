"""Measures of two versions, as their requests would have made them."""

from math import log
from random import Random

from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import SLICE_SECONDS, Slice, stratum_of


def measures(
    random: Random,
    *,
    slices: int,
    requests: int,
    slower: float = 1.0,
    long_prompts: float = 1.0,
    growth: float = 0.0,
    replicas: int = 2,
    **rates: float,
) -> Measures:
    """Requests in each of some slices: a third has long prompts. `rates` are of events among requests and answers."""
    found = Measures()
    for number in range(slices):
        piece = found.slices[number * SLICE_SECONDS] = Slice()
        piece.count("requests", requests)
        piece.count("answers", requests)
        for event, rate in rates.items():
            times = sum(random.random() < rate for _ in range(requests))
            if times:
                piece.count(event, times)
        for request in range(requests):
            name = f"replica-{request % replicas}"
            piece.replicas[name] = piece.replicas.get(name, 0) + 1
            is_long = request % 3 == 0
            factor = slower * (long_prompts if is_long else 1.0) * (1.0 + growth * number * SLICE_SECONDS / 60.0)
            stratum = stratum_of(8000 if is_long else 100)
            for measure, mean, deviation in (("ttft", 0.2, 0.5), ("tpot", 0.03, 0.2), ("seconds", 6.0, 0.9)):
                piece.add_times(measure, stratum, [log(mean * factor) + random.gauss(0.0, deviation)])
    return found
