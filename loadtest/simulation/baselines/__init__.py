"""Baseline policies that imitate other routers; `POLICIES` has them beside the gateway's own.

Each policy that does not pace prompts by itself is there a second time, behind the pacing of `auto`.
"""

from collections.abc import Callable

from loadtest.simulation.baselines.dynamo_kv import DynamoKv
from loadtest.simulation.baselines.llmd import Llmd
from loadtest.simulation.baselines.paced import Paced
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
UNPACED = policies.POLICIES | BASELINES


def _paced(make: Callable[[PolicySettings], RoutingPolicy]) -> Callable[[PolicySettings], RoutingPolicy]:
    return lambda settings: Paced(make(settings), settings.targets)


POLICIES: dict[str, Callable[[PolicySettings], RoutingPolicy]] = UNPACED | {
    f"paced_{name}": _paced(make) for name, make in UNPACED.items() if name != "auto"
}
