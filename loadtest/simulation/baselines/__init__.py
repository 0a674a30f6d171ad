"""Baseline policies that imitate other routers; `POLICIES` has them beside the gateway's own."""

from collections.abc import Callable

from loadtest.simulation.baselines.dynamo_kv import DynamoKv
from loadtest.simulation.baselines.llmd import Llmd
from loadtest.simulation.baselines.prompt_tree import PromptTree
from loadtest.simulation.baselines.smg_cache_aware import SmgCacheAware
from routing import policies
from routing.contracts.policy import RoutingPolicy
from routing.contracts.policy_settings import PolicySettings

BASELINES: dict[str, Callable[[PolicySettings], RoutingPolicy]] = {
    "dynamo_kv": lambda _: DynamoKv(),
    "llmd": lambda _: Llmd(),
    "smg_cache_aware": lambda _: SmgCacheAware(PromptTree()),
}
POLICIES: dict[str, Callable[[PolicySettings], RoutingPolicy]] = policies.POLICIES | BASELINES
