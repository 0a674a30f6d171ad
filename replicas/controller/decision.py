"""What was decided about a model's size, and why."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from replicas.controller.snapshot import Snapshot


class PoolDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's replicas as wanted, `spot` of them preemptible; `needed` is what the load alone asks for."""

    wanted: int
    spot: int = 0
    needed: int = 0
    reason: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision about a model. `cost` is in US dollars an hour, None where a price is unknown.

    `inputs` are the figures that it was made from, by name, for `penstock scale explain`; `reasons` are sentences, the
    decisive one first. `warnings` tell what could not be reached, as with a budget that buys less than the SLO needs.
    """

    at: float
    pools: Mapping[str, PoolDecision]
    cost: float | None
    inputs: Mapping[str, float]
    reasons: Sequence[str]
    warnings: Sequence[str] = ()


class Scaler(Protocol):
    """Decides the size of one model; called every few seconds with times that never go back."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return how many replicas each pool shall have."""
        ...
