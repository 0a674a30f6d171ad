"""Routing policies and their registry by configuration name."""

from collections.abc import Callable

from routing.contracts.policy import RoutingPolicy
from routing.contracts.policy_settings import PolicySettings
from routing.policies.auto import Auto
from routing.policies.combined import Combined
from routing.policies.concurrency import Concurrency
from routing.policies.least_load import LeastLoad
from routing.policies.long_context import LongContext
from routing.policies.pd_heatmap import PdHeatmap
from routing.policies.power_of_two import PowerOfTwo
from routing.policies.prefix import Prefix
from routing.policies.round_robin import RoundRobin

POLICIES: dict[str, Callable[[PolicySettings], RoutingPolicy]] = {
    "auto": Auto,
    "combined": lambda settings: Combined(settings.heatmap),
    "concurrency": lambda settings: Concurrency(
        settings.tiers, settings.threshold, settings.rng if settings.learned else None
    ),
    "least_load": lambda _: LeastLoad(),
    "long_context": lambda settings: LongContext(settings.long_context_tokens),
    "pd_heatmap": lambda settings: PdHeatmap(settings.heatmap),
    "power_of_two": lambda settings: PowerOfTwo(settings.rng),
    "prefix": lambda _: Prefix(),
    "round_robin": lambda _: RoundRobin(),
}
