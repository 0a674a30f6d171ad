"""From the configuration of a model's routing to what its policy is made with."""

from gateway.config.models.heatmap import usable_heatmap
from gateway.config.models.settings import Model
from routing.contracts.policy_settings import CONCURRENCY_THRESHOLD, LONG_CONTEXT_TOKENS, PolicySettings, Targets, Tier
from routing.dispatch.hedging import Hedging


def policy_settings(model: Model) -> PolicySettings:
    """The settings of a model's policy, its heatmap read. Raises HeatmapError."""
    routing = model.routing
    tiers = tuple(
        Tier(frozenset(tier.pools), float("inf") if tier.below is None else tier.below) for tier in routing.tiers
    )
    given = routing.targets
    return PolicySettings(
        targets=Targets(given.ttft_ms * 1e-3, given.ttft_per_token_ms * 1e-3, given.tpot_ms * 1e-3)
        if given
        else Targets(),
        tiers=tiers,
        threshold=routing.threshold if isinstance(routing.threshold, int) else CONCURRENCY_THRESHOLD,
        learned=routing.threshold == "learned",
        heatmap=usable_heatmap(model),
        long_context_tokens=routing.long_context_tokens or LONG_CONTEXT_TOKENS,
    )


def hedging(model: Model) -> Hedging | None:
    """When a model's requests have a second attempt, if they ever do."""
    given = model.routing.hedging
    return Hedging(given.after_ms * 1e-3, given.max_prompt_tokens) if given else None
