"""What requests of a model are like on average."""

from math import exp

import msgspec

from replicas.controller.snapshot import Demand

#: Requests over which lengths are averaged at least: of fewer, those with long tails say little.
ENOUGH = 400.0
#: Seconds of which the means of gateway/scaling/demand/demand_counter.py are: in as many, a request counts less by e.
MEMORY_SECONDS = 120.0


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Mean tokens of a request: its whole prompt, the part of it that caches hold, and its answer."""

    prompt: float
    cached: float
    output: float

    @property
    def computed(self) -> float:
        """Prompt tokens that are computed; at least the last one is."""
        return max(1.0, self.prompt - min(self.cached, self.prompt))

    @property
    def pairs(self) -> float:
        """(query, key) pairs in the attention of a prompt's computed tokens."""
        computed = self.computed
        return computed * (self.prompt - computed) + computed * (computed + 1) / 2

    @property
    def context(self) -> float:
        """KV tokens that an answer's token reads, half-way through it."""
        return self.prompt + self.output / 2


def workload_of(demand: Demand) -> Workload | None:
    """Return the means of the demand, None where nothing was seen."""
    if demand.prompt_tokens < 1 or demand.output_tokens <= 0:
        return None
    return Workload(
        prompt=demand.prompt_tokens,
        cached=min(max(demand.cached_tokens, 0.0), demand.prompt_tokens),
        output=max(demand.output_tokens, 1.0),
    )


def learned_workload(known: Workload | None, demand: Demand, seconds: float) -> Workload | None:
    """Return the means `seconds` after `known` held: those of the demand, or of more requests where few come.

    The demand's own are of the last minutes, in which few requests may have been by chance long.
    """
    seen = workload_of(demand)
    rate = demand.requests_per_second
    if seen is None or known is None or not 0.0 < rate * MEMORY_SECONDS < ENOUGH:
        return seen or known
    part = 1.0 - exp(-max(seconds, 0.0) * rate / ENOUGH)
    return Workload(
        prompt=known.prompt + part * (seen.prompt - known.prompt),
        cached=known.cached + part * (seen.cached - known.cached),
        output=known.output + part * (seen.output - known.output),
    )
