"""Conversion of a model's routing configuration to its policy's settings."""

from gateway.config.models.heatmap import usable_heatmap
from gateway.config.models.settings import Model
from routing.contracts.policy_settings import CONCURRENCY_THRESHOLD, LONG_CONTEXT_TOKENS, PolicySettings, Targets, Tier


def policy_settings(model: Model) -> PolicySettings:
    """Convert a model's routing configuration and load its heatmap. Raises HeatmapError."""
    routing = model.routing
    tiers = tuple(
        Tier(frozenset(tier.pools), float("inf") if tier.below is None else tier.below) for tier in routing.tiers
    )
    return PolicySettings(
        targets=routing.targets or Targets(),
        tiers=tiers,
        threshold=routing.threshold if isinstance(routing.threshold, int) else CONCURRENCY_THRESHOLD,
        learned=routing.threshold == "learned",
        heatmap=usable_heatmap(model),
        long_context_tokens=routing.long_context_tokens or LONG_CONTEXT_TOKENS,
    )
