"""What requests of a model are like on average."""

import msgspec

from replicas.controller.snapshot import Demand


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
