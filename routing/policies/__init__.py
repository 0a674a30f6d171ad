"""The routing policies by the names that the configuration uses."""

from collections.abc import Callable

from routing.policies.least_load import LeastLoad
from routing.policies.round_robin import RoundRobin
from routing.policy import RoutingPolicy

POLICIES: dict[str, Callable[[], RoutingPolicy]] = {
    "least_load": LeastLoad,
    "round_robin": RoundRobin,
}
